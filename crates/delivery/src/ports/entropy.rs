/// A source of randomness for tokens and jitter.
pub trait Entropy {
    /// A random text of at least 128 bits, so that no two calls return the same one.
    fn token(&self) -> String;

    /// A random number, evenly distributed from 0.0 to 1.0.
    fn unit(&self) -> f64;
}
