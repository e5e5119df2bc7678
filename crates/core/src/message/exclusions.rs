//! Addresses to which campaigns send nothing, such as those that unsubscribed while their mail waits.
//!
//! The list keeps a hash of 64 bits of each address: a million addresses need 8 MB. With a million recipients and a
//! million addresses, one recipient is taken for another with a probability of about 1 in 18 million.
//!
//! The ledger stores it in 256 shards, by the first byte of the hash, so that one address more rewrites one item
//! of 32 KB, not all of them.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Most addresses on the list. A shard then has about 16,000, which are 128 KB of DynamoDB's 400.
pub const MOST_EXCLUSIONS: u64 = 4_000_000;
/// Bytes of a hash.
const KEY: usize = 8;

/// The list as the control record names it: pollers read the shards again once this changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExclusionState {
    /// Number of its changes.
    pub version: u64,
    /// Number of addresses.
    pub addresses: u64,
}

/// The hash of an address: the first 8 bytes of the SHA-256 of its text in lower case, without a name.
///
/// ```
/// use tidegate_core::email::Address;
/// use tidegate_core::exclusions::AddressKey;
/// let key = |text| AddressKey::of_text(Address::parse(text).unwrap().addr_spec());
/// assert_eq!(key("Ada <ADA@example.com>"), key("ada@example.com"));
/// assert_ne!(key("bob@example.com"), key("ada@example.com"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressKey(u64);

impl AddressKey {
    /// The key of an address that stands alone, without a name.
    pub fn of_text(address: &str) -> Self {
        let hash = Sha256::digest(address.to_ascii_lowercase());
        Self(hash.iter().take(KEY).fold(0, |key, byte| key << 8 | u64::from(*byte)))
    }

    /// Number of the shard, from 0 to 255.
    pub fn shard(self) -> u8 {
        self.0.to_be_bytes()[0]
    }
}

/// As 16 hexadecimal digits.
impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Writes the keys of a shard as bytes, in order.
pub fn pack(keys: &BTreeSet<AddressKey>) -> Vec<u8> {
    keys.iter().flat_map(|key| key.0.to_be_bytes()).collect()
}

/// Reads the keys of a shard; `None` if the bytes are no whole number of keys.
pub fn unpack(bytes: &[u8]) -> Option<BTreeSet<AddressKey>> {
    let (keys, rest) = bytes.as_chunks::<KEY>();
    rest.is_empty().then(|| keys.iter().map(|key| AddressKey(u64::from_be_bytes(*key))).collect())
}

/// The whole list, to look addresses up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExclusionList(Vec<AddressKey>);

impl ExclusionList {
    /// The list of these keys, in any order.
    pub fn of(keys: impl IntoIterator<Item = AddressKey>) -> Self {
        let mut keys: Vec<AddressKey> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        Self(keys)
    }

    /// Whether the address, without a display name, or the phone number is on the list.
    pub fn contains(&self, address: &str) -> bool {
        self.0.binary_search(&AddressKey::of_text(address)).is_ok()
    }

    /// Number of addresses.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody is on it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::email::Address;

    #[test]
    fn a_key_is_the_beginning_of_the_addresss_sha_256() {
        // printf 'ada@example.com' | sha256sum
        assert_eq!(AddressKey::of_text("Ada@example.com"), AddressKey::of_text("ada@example.com"));
        let hash = Sha256::digest("ada@example.com");
        assert_eq!(AddressKey::of_text("ada@example.com").shard(), hash[0]);
    }

    proptest! {
        #[test]
        fn a_shard_reads_back_what_it_writes_and_nothing_cut_off(keys in proptest::collection::btree_set(any::<u64>(), 0..50)) {
            let keys: BTreeSet<AddressKey> = keys.into_iter().map(AddressKey).collect();
            let bytes = pack(&keys);
            prop_assert_eq!(unpack(&bytes), Some(keys.clone()));
            if !bytes.is_empty() {
                prop_assert_eq!(unpack(&bytes[1..]), None);
            }
        }

        #[test]
        fn a_list_has_what_was_put_into_it_and_nothing_else(
            on in proptest::collection::vec("[a-z]{1,3}", 0..30), asked in "[a-z]{1,3}",
        ) {
            let address = |name: &str| Address::parse(&format!("{name}@example.com")).unwrap();
            let list = ExclusionList::of(on.iter().map(|name| AddressKey::of_text(address(name).addr_spec())));
            prop_assert_eq!(list.contains(address(&asked).addr_spec()), on.contains(&asked));
            prop_assert_eq!(list.len(), on.iter().collect::<BTreeSet<_>>().len());
        }
    }
}
