//! The recipient domains of a forecast's mails: a given share goes to each named domain, and each
//! other mail goes to a domain of its own.

use std::fmt;
use std::str::FromStr;

/// The part of the mails that goes to one domain.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainShare {
    pub domain: String,
    /// The share of all mails, above 0 and at most 1.
    pub share: f64,
}

impl FromStr for DomainShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            format!(
                "`{text}` is no share; allowed is a domain and a part of the mails such as gmail.com=40%"
            )
        };
        let (domain, share) = text.split_once('=').ok_or_else(wrong)?;
        let percent: f64 = share
            .trim()
            .strip_suffix('%')
            .ok_or_else(wrong)?
            .trim()
            .parse()
            .map_err(|_| wrong())?;
        let domain = domain.trim().to_ascii_lowercase();
        let named = domain.contains('.') && !domain.contains(['@', '"', ' ', '\\']);
        if named && percent > 0.0 && percent <= 100.0 {
            Ok(Self { domain, share: percent / 100.0 })
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for DomainShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}%", self.domain, self.share * 100.0)
    }
}

/// The domain of mail number `n`. The fractional parts of the multiples of the golden ratio are
/// spread evenly over 0 to 1, so any run of mails has nearly the exact shares. Example: with
/// gmail.com=40%, mail 1 has the place 0.618 and goes elsewhere, mail 2 has 0.236 and goes to
/// gmail.com.
#[expect(clippy::cast_precision_loss, reason = "at most a billion mails")]
pub(super) fn domain_of(shares: &[DomainShare], n: u64) -> String {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let place = (n as f64 * GOLDEN).fract();
    let mut sum = 0.0;
    for share in shares {
        sum += share.share;
        if place < sum {
            return share.domain.clone();
        }
    }
    format!("d{n}.example")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mails_are_spread_by_the_shares_in_every_stretch() {
        let shares = ["gmail.com=40%", "yahoo.com=15%"].map(|text| text.parse().unwrap());
        for from in [0, 12_345] {
            let of = |domain: &str| {
                (from..from + 1_000).filter(|n| domain_of(&shares, *n) == domain).count()
            };
            assert!(
                (395..=405).contains(&of("gmail.com")) && (145..=155).contains(&of("yahoo.com"))
            );
        }
        for wrong in ["gmail.com", "gmail.com=0%", "gmail.com=101%", "gmail=4%", "gmail.com=4"] {
            let error = wrong.parse::<DomainShare>().unwrap_err();
            assert!(error.contains("gmail.com=40%"), "{error}");
        }
    }
}
