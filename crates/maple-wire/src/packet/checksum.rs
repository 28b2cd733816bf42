//! The Internet checksum (RFC 1071), pseudo headers, and the CRC of SCTP.

/// A running one's complement sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes as big-endian 16-bit words. An odd last byte is padded with zero, so only the last call may have one.
    pub fn with(mut self, bytes: &[u8]) -> Sum {
        let words = bytes.chunks_exact(2);
        if let [last] = words.remainder() {
            self.0 += u64::from(*last) << 8;
        }
        self.0 += words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>();
        self
    }

    /// Adds the pseudo header of TCP, UDP and ICMPv6: addresses (both 4 or both 16 bytes), protocol, length.
    pub fn with_pseudo_header(self, src: &[u8], dst: &[u8], proto: u8, len: usize) -> Sum {
        self.with(src).with(dst).with(&[0, proto]).with(&(len as u32).to_be_bytes())
    }

    /// Returns the checksum: the complement of the folded sum.
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

/// Computes the Internet checksum of `bytes`.
pub fn internet(bytes: &[u8]) -> u16 {
    Sum::default().with(bytes).finish()
}

/// Computes CRC-32C (Castagnoli) as in SCTP (RFC 9260 appendix A), to be stored in little-endian order.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfcs_come_out() {
        // RFC 1071 §3.
        let sum = Sum::default().with(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), !0xddf2);
        // RFC 3720 §B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
