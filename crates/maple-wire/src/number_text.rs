//! Numbers as people and programs write them. No sign precedes the digits, which `from_str_radix` would allow.

/// Reads a decimal number, or a hexadecimal one after `0x`.
///
/// ```
/// use maple_wire::parse_number;
///
/// assert_eq!(["10", "0x10", "0XfF"].map(parse_number), [Some(10), Some(16), Some(255)]);
/// assert_eq!(["", "+1", "0x", "0x+1", "-1", "ff"].map(parse_number), [None; 6]);
/// ```
pub fn parse_number(text: &str) -> Option<u128> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => parse_hex(digits),
        None => text.parse().ok().filter(|_| !text.starts_with('+')),
    }
}

/// Reads hexadecimal digits that nothing precedes. Returns `None` if the type can't hold the number.
///
/// ```
/// use maple_wire::parse_hex;
///
/// assert_eq!(["2a", "002A"].map(parse_hex::<u64>), [Some(42); 2]);
/// assert_eq!(["", "0x2a", "+2a", "-2a", " 2a", "10000000000000000"].map(parse_hex::<u64>), [None; 6]);
/// ```
pub fn parse_hex<N: TryFrom<u128>>(digits: &str) -> Option<N> {
    let number = u128::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
    N::try_from(number).ok()
}
