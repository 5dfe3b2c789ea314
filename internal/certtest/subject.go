package certtest

import (
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
)

// The tags of the string types that asn1 does not name.
const (
	TagTeletexString   = 20
	TagUniversalString = 28
)

// Attribute is one type and value of a name. Value holds the contents octets as
// they will stand in the certificate; nothing checks that they fit Tag.
type Attribute struct {
	OID   asn1.ObjectIdentifier
	Tag   int // universal class
	Value []byte
}

// RDN is a relative distinguished name; one of more than one attribute is called
// multi-valued. The attributes stay in the order given, which DER would want
// sorted.
type RDN []Attribute

// Name encodes a subject. The first RDN is the outermost one, which RFC 2253
// prints last: Name(RDN{O("Lab")}, RDN{CN("alice")}) is "CN=alice,O=Lab".
func Name(rdns ...RDN) []byte {
	var name []asn1.RawValue
	for _, rdn := range rdns {
		var set []byte
		for _, a := range rdn {
			set = append(set, a.der()...)
		}
		name = append(name, asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagSet, IsCompound: true, Bytes: set})
	}
	return mustMarshal(name)
}

func (a Attribute) der() []byte {
	return mustMarshal(struct {
		OID   asn1.ObjectIdentifier
		Value asn1.RawValue
	}{a.OID, asn1.RawValue{Class: asn1.ClassUniversal, Tag: a.Tag, Bytes: a.Value}})
}

func mustMarshal(v any) []byte {
	der, err := asn1.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("certtest: name: %v", err))
	}
	return der
}

// CN is a common name, as a UTF8String.
func CN(s string) Attribute { return UTF8(asn1.ObjectIdentifier{2, 5, 4, 3}, s) }

// O is an organisation, as a UTF8String.
func O(s string) Attribute { return UTF8(asn1.ObjectIdentifier{2, 5, 4, 10}, s) }

// OU is an organisational unit, as a UTF8String.
func OU(s string) Attribute { return UTF8(asn1.ObjectIdentifier{2, 5, 4, 11}, s) }

// L is a locality, as a UTF8String.
func L(s string) Attribute { return UTF8(asn1.ObjectIdentifier{2, 5, 4, 7}, s) }

// ST is a state, as a UTF8String.
func ST(s string) Attribute { return UTF8(asn1.ObjectIdentifier{2, 5, 4, 8}, s) }

// C is a country, as a PrintableString.
func C(s string) Attribute { return Printable(asn1.ObjectIdentifier{2, 5, 4, 6}, s) }

// DC is a domain component, as an IA5String.
func DC(s string) Attribute {
	return IA5(asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}, s)
}

// UID is a user id, as a UTF8String.
func UID(s string) Attribute {
	return UTF8(asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, s)
}

// Email is PKCS#9's emailAddress, as an IA5String.
func Email(s string) Attribute {
	return IA5(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, s)
}

// UTF8 makes a UTF8String of any attribute type.
func UTF8(oid asn1.ObjectIdentifier, s string) Attribute {
	return Attribute{oid, asn1.TagUTF8String, []byte(s)}
}

// Printable makes a PrintableString; s may hold what that type does not allow.
func Printable(oid asn1.ObjectIdentifier, s string) Attribute {
	return Attribute{oid, asn1.TagPrintableString, []byte(s)}
}

// IA5 makes an IA5String; s may hold what that type does not allow.
func IA5(oid asn1.ObjectIdentifier, s string) Attribute {
	return Attribute{oid, asn1.TagIA5String, []byte(s)}
}

// Teletex makes a TeletexString (T61String) of the bytes of s.
func Teletex(oid asn1.ObjectIdentifier, s string) Attribute {
	return Attribute{oid, TagTeletexString, []byte(s)}
}

// BMP makes a BMPString: two bytes a character.
func BMP(oid asn1.ObjectIdentifier, s string) Attribute {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.BigEndian.AppendUint16(b, u)
	}
	return Attribute{oid, asn1.TagBMPString, b}
}

// Universal makes a UniversalString: four bytes a character.
func Universal(oid asn1.ObjectIdentifier, s string) Attribute {
	var b []byte
	for _, r := range s {
		b = binary.BigEndian.AppendUint32(b, uint32(r))
	}
	return Attribute{oid, TagUniversalString, b}
}
