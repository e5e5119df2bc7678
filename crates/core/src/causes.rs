use std::error::Error;

/// An error with its causes in one line, joined by colons. A cause whose text an outer error contains is
/// left out.
pub fn in_full(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let mut said: Vec<String> = Vec::new();
    for cause in causes.map(ToString::to_string) {
        if !said.iter().any(|before| before.contains(&cause)) {
            said.push(cause);
        }
    }
    said.join(": ")
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<dyn Error>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let (text, inner) = texts.split_first().unwrap();
        let source = (!inner.is_empty()).then(|| Box::new(layers(inner)) as Box<dyn Error>);
        Layer { text, source }
    }

    #[test]
    fn every_cause_is_said_once_from_the_outermost_to_the_innermost() {
        assert_eq!(in_full(&layers(&["no answer"])), "no answer");
        assert_eq!(
            in_full(&layers(&["Claim failed", "TLS", "expired"])),
            "Claim failed: TLS: expired"
        );
        assert_eq!(
            in_full(&layers(&["Claim failed (TLS)", "TLS", "expired"])),
            "Claim failed (TLS): expired"
        );
    }
}
