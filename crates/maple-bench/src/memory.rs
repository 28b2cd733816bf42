//! What the heap holds.

/// Bytes that the program holds on the heap, as glibc's `malloc_info` counts them: what was obtained from the system
/// without what is free for reuse. `None` on other systems.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn heap_in_use() -> Option<usize> {
    use malloc_info::info::{SystemType, TotalType};

    let info = malloc_info::malloc_info().ok()?;
    let current = info.system.iter().filter(|system| system.r#type == SystemType::Current);
    let obtained: usize = current.map(|system| system.size).sum();
    let free = info.total.iter().filter(|total| matches!(total.r#type, TotalType::Fast | TotalType::Rest));
    let mapped = info.total.iter().filter(|total| total.r#type == TotalType::Mmap);
    let size = |totals: &mut dyn Iterator<Item = &malloc_info::info::Total>| totals.map(|total| total.size).sum();
    let (free, mapped): (usize, usize) = (size(&mut free.into_iter()), size(&mut mapped.into_iter()));
    Some((obtained + mapped).saturating_sub(free))
}

/// Bytes that the program holds on the heap: not known here.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn heap_in_use() -> Option<usize> {
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted() {
        let is_counted = || {
            let before = heap_in_use().unwrap();
            let kept: Vec<Box<[u8; 1000]>> = (0..1000).map(|_| Box::new([1; 1000])).collect();
            let large = vec![1u8; 10_000_000];
            let grown = heap_in_use().unwrap().abs_diff(before);
            drop((kept, large));
            (10_900_000..12_000_000).contains(&grown) && heap_in_use().unwrap().abs_diff(before) < 1_000_000
        };
        // Other tests run beside this one: it waits for a moment in which they keep nothing new.
        let mut tries = 0..200;
        assert!(tries.any(|_| is_counted() || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            false
        }));
    }
}
