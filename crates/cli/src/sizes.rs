//! Amounts of memory as people write them.

/// Reads `4096`, `64K`, `512M`, `2G` or `1T` (powers of 1024; `MB` and `MiB` mean `M`), rounded up to whole
/// pages.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_uppercase();
    let shift = match unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit) {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("write bytes, or a number with K, M, G or T".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "write bytes, or a number with K, M, G or T".to_owned())?;
    let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes > 0);
    bytes
        .and_then(|bytes| bytes.checked_next_multiple_of(4096))
        .ok_or_else(|| "more than 0 and less than 2^64 bytes are possible".to_owned())
}

/// As people read it: three figures and a unit.
pub fn show(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(4);
    match unit {
        0 => format!("{bytes} B"),
        _ => format!(
            "{:.1} {}",
            bytes as f64 / f64::from(1u32 << (10 * unit.min(3))) / if unit == 4 { 1024.0 } else { 1.0 },
            units[unit as usize]
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let good = [
            ("4096", 4096),
            ("1", 4096),
            ("64K", 64 << 10),
            ("512M", 512 << 20),
            ("2g", 2 << 30),
            ("3 GiB", 3 << 30),
            ("1MB", 1 << 20),
        ];
        good.into_iter().for_each(|(text, bytes)| assert_eq!(parse(text), Ok(bytes), "{text}"));
        for bad in ["", "M", "0", "-1", "1.5G", "9X", "99999999999999999999", "18446744073709551615"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown() {
        let shown =
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 40, "3.0 TiB")];
        shown.into_iter().for_each(|(bytes, text)| assert_eq!(show(bytes), text));
    }
}
