//! The shards of the exclusion list, one item each.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use tidegate_core::exclusions::{pack, unpack};
use tidegate_delivery::ports::{ExclusionShard, Exclusions, PortError};

use super::DynamoLedger;
use super::table::{number, text};

/// Keys per call, DynamoDB's maximum.
const PER_CALL: usize = 100;

fn key(shard: u8) -> String {
    format!("exclusions#{shard}")
}

impl Exclusions for DynamoLedger {
    async fn shards(&self, numbers: &[u8]) -> Result<Vec<ExclusionShard>, PortError> {
        let mut shards = Vec::with_capacity(numbers.len());
        for some in numbers.chunks(PER_CALL) {
            let keys: Vec<String> = some.iter().map(|shard| key(*shard)).collect();
            let found = self.table.items(keys.iter().collect::<BTreeSet<_>>()).await?;
            for key in &keys {
                let Some(item) = found.get(key) else {
                    shards.push(ExclusionShard::default());
                    continue;
                };
                let reader = self.table.reader(item);
                let bytes = item.get("keys").and_then(|value| value.as_b().ok());
                let keys = bytes.and_then(|bytes| unpack(bytes.as_ref()));
                shards.push(ExclusionShard {
                    version: reader.number("version")?.unwrap_or_default(),
                    keys: keys.ok_or_else(|| reader.unreadable("keys"))?,
                });
            }
        }
        Ok(shards)
    }

    async fn set_shard(&self, place: u8, shard: &ExclusionShard) -> Result<bool, PortError> {
        const SET: &str = "SET #keys = :keys, #version = :next";
        const STANDS: &str = "attribute_not_exists(pk) AND :stands = :never OR #version = :stands";
        let update = self
            .table
            .update_of(text(key(place)), SET, STANDS)
            .expression_attribute_values(":keys", AttributeValue::B(Blob::new(pack(&shard.keys))))
            .expression_attribute_values(":next", number(&(shard.version + 1)))
            .expression_attribute_values(":stands", number(&shard.version))
            .expression_attribute_values(":never", number(&0));
        Ok(self.table.make(update).await?.is_ok())
    }
}
