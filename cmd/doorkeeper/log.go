package main

import (
	"io"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// newLogger returns a logger that writes one line per entry to w. Both formats
// escape every character that could forge a line, move a terminal's cursor or
// change the direction of text.
func newLogger(c Log, w io.Writer) *zap.Logger {
	var enc zapcore.Encoder
	switch c.Format {
	case formatJSON:
		e := zap.NewProductionEncoderConfig()
		e.TimeKey = "time"
		e.EncodeTime = zapcore.RFC3339NanoTimeEncoder
		e.EncodeDuration = zapcore.StringDurationEncoder
		enc = zapcore.NewJSONEncoder(e)
	case formatConsole:
		fallthrough
	default:
		e := zap.NewDevelopmentEncoderConfig()
		e.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00")
		e.EncodeLevel = zapcore.CapitalLevelEncoder
		e.ConsoleSeparator = "  "
		enc = zapcore.NewConsoleEncoder(e)
	}
	core := zapcore.NewCore(escaper{Encoder: enc, pool: buffer.NewPool()}, zapcore.Lock(zapcore.AddSync(w)), zapcore.Level(c.Level))
	return zap.New(core, zap.ErrorOutput(zapcore.Lock(zapcore.AddSync(w))))
}

// escaper finishes an encoder's work: zap's console encoder writes messages as
// they are, and both leave DEL, C1, line separators and direction marks alone.
type escaper struct {
	zapcore.Encoder
	pool buffer.Pool
}

// Clone implements zapcore.Encoder; a logger made by With keeps the escaping.
func (e escaper) Clone() zapcore.Encoder {
	return escaper{Encoder: e.Encoder.Clone(), pool: e.pool}
}

// EncodeEntry implements zapcore.Encoder. Inside JSON strings, where fields and
// JSON messages are, \uXXXX means the same as the character it stands for.
func (e escaper) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	line, err := e.Encoder.EncodeEntry(entry, fields)
	if err != nil {
		return line, err
	}
	text := line.Bytes()
	end := len(text)
	if end > 0 && text[end-1] == '\n' {
		end--
	}
	at := nextForged(text[:end])
	if at < 0 {
		return line, nil
	}
	out := e.pool.Get()
	for at >= 0 {
		r, size := utf8.DecodeRune(text[at:end])
		_, _ = out.Write(text[:at])
		writeEscaped(out, r)
		text, end = text[at+size:], end-at-size
		at = nextForged(text[:end])
	}
	_, _ = out.Write(text)
	line.Free()
	return out, nil
}

// nextForged returns where the next character to be escaped is, or -1.
func nextForged(text []byte) int {
	for i := 0; i < len(text); {
		if b := text[i]; b < utf8.RuneSelf {
			if b < ' ' || b == 0x7f {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || isForging(r) {
			return i
		}
		i += size
	}
	return -1
}

// isForging tells which characters beyond ASCII change how a line is shown: C1
// controls, line and paragraph separators, direction marks and zero-width ones.
func isForging(r rune) bool {
	switch {
	case 0x80 <= r && r <= 0x9f, r == 0xad, r == 0x61c, r == 0x180e, r == 0xfeff:
		return true
	case 0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f:
		return true
	}
	return 0xe0000 <= r && r <= 0xe007f // tags, which nothing shows
}

func writeEscaped(out *buffer.Buffer, r rune) {
	const hex = "0123456789abcdef"
	unit := func(v rune) {
		out.AppendString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			out.AppendByte(hex[v>>shift&0xf])
		}
	}
	if r > 0xffff { // a surrogate pair, as JSON has it
		r -= 0x10000
		unit(0xd800 + r>>10)
		unit(0xdc00 + r&0x3ff)
		return
	}
	unit(r)
}
