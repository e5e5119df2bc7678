/// The most weight in any half-open stretch of `second`, of `(start, weight)` sorted by start: what the
/// tests of every bound look at.
pub(crate) fn worst_second(starts: &[(u64, u64)], second: u64) -> u64 {
    let (mut worst, mut sum, mut from) = (0, 0, 0);
    for &(at, weight) in starts {
        sum += weight;
        while at - starts[from].0 >= second {
            sum -= starts[from].1;
            from += 1;
        }
        worst = worst.max(sum);
    }
    worst
}
