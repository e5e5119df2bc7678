/// The largest sum of weights in any half-open interval of length `second`. `starts` are
/// `(start, weight)`, sorted by start. Tests of all rate bounds use it.
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
