use crate::step::Step;

/// The records that all clients agree on (../harness/records.go is the same): record i of
/// a series has the key PREFIX + eight digits of i, and a value that repeats the key to
/// the given size.
pub struct Records {
    prefix: String,
    size: usize,
}

impl Records {
    pub fn new(step: &Step) -> Records {
        Records {
            prefix: step.get("prefix", "r"),
            size: step.number("size", 100) as usize,
        }
    }

    pub fn key(&self, i: u64) -> Vec<u8> {
        format!("{}{i:08}", self.prefix).into_bytes()
    }

    pub fn value(&self, key: &[u8]) -> Vec<u8> {
        key.iter().copied().cycle().take(self.size).collect()
    }

    /// The number of a record of this series, if it is one.
    pub fn index(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        let digits = std::str::from_utf8(key.strip_prefix(self.prefix.as_bytes())?).ok()?;
        if digits.len() != 8
            || !digits.bytes().all(|b| b.is_ascii_digit())
            || value != self.value(key)
        {
            return None;
        }
        digits.parse().ok()
    }
}

/// A record's share of the sum.
pub fn checksum(key: &[u8], value: &[u8]) -> u64 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(key);
    crc.update(value);
    crc.finalize().into()
}
