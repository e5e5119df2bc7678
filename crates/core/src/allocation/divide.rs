/// Divides `total` by `weights`. The parts add up to `total`, and each differs from its exact share by
/// less than one. If every weight is 0, all parts are 0.
///
/// The method is that of the largest remainders: each part is rounded down, then the parts with the
/// largest remainders get one more each (of equal remainders the first). Example: 13 by 90 and 10 is
/// 11.7 and 1.3; rounded down 11 and 1, and the one that is left goes to 0.7, the larger remainder: 12
/// and 1.
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
