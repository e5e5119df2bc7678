/// Divides `total` by `weights`: exact in sum, each within one of its share (largest remainders,
/// the first of equals). All to nobody where every weight is 0.
///
/// ```
/// use tidegate_core::allocation::divide;
/// assert_eq!(divide(13, &[90, 10]), [12, 1]);
/// assert_eq!(divide(7, &[0, 5]), [0, 7]);
/// ```
pub fn divide(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&w| u128::from(w)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let product = |w: u64| u128::from(total) * u128::from(w);
    let mut parts: Vec<u64> =
        weights.iter().map(|&w| u64::try_from(product(w) / sum).unwrap_or(u64::MAX)).collect();
    let mut rest = total - parts.iter().sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder
        .sort_by_key(|&i| std::cmp::Reverse(weights.get(i).map_or(0, |&w| product(w) % sum)));
    for index in by_remainder {
        if rest == 0 {
            break;
        }
        if let Some(part) = parts.get_mut(index) {
            *part += 1;
            rest -= 1;
        }
    }
    parts
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "recipients of one window: far below 2^52; the mean is at least 1"
)]
pub(super) fn per_mail(recipients: u64, mean: f64) -> u64 {
    (recipients as f64 / mean).floor() as u64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "at most 10 mails of 50 recipients"
)]
pub(super) fn recipients(mails: u64, mean: f64) -> u64 {
    (mails as f64 * mean).round() as u64
}
