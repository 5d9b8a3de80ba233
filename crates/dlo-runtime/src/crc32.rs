//! CRC-32 (IEEE 802.3, the one of gzip and PNG): tells whether bytes that we wrote are whole.
//!
//! It finds torn and rotten bytes, not forged ones: who can write our files can do anything already.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut entry = index as u32;
        let mut bit = 0;
        while bit < 8 {
            entry = if entry & 1 == 1 { (entry >> 1) ^ 0xedb8_8320 } else { entry >> 1 };
            bit += 1;
        }
        table[index] = entry;
        index += 1;
    }
    table
}

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        let low = crc.to_le_bytes()[0];
        (crc >> 8) ^ TABLE[usize::from(low ^ byte)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_checksum_that_the_standard_checks_itself_with() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
