/// Randomness: for tokens and for jitter.
pub trait Entropy {
    /// A text nobody else draws: 128 bits or more.
    fn token(&self) -> String;

    /// A number from 0.0 to 1.0, evenly.
    fn unit(&self) -> f64;
}
