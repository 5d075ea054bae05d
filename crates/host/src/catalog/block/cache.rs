//! Caches the blocks of a catalog: tool definitions, written for a model provider.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use super::{BlockKind, ToolBlock};

/// The most blocks in the cache; the oldest is removed first. With more kinds in use at the same time, results are
/// slower but correct.
const MAX_BLOCKS: usize = 16;

/// The place of one block in the cache. It is filled once, by the first thread that needs the block.
type Slot = Arc<OnceLock<Arc<ToolBlock>>>;

/// Blocks by their kind. Readers never lock; two threads that request a new block at the same time get the same block.
#[derive(Debug, Default)]
pub(in crate::catalog) struct BlockCache(ArcSwap<Vec<(BlockKind, Slot)>>);

impl BlockCache {
    /// Returns the block of this kind; `build` makes it once.
    pub(in crate::catalog) fn get(&self, kind: &BlockKind, build: impl FnOnce() -> ToolBlock) -> Arc<ToolBlock> {
        let existing_slot = find_slot(&self.0.load(), kind);
        let slot = existing_slot.unwrap_or_else(|| self.add_slot(kind));
        slot.get_or_init(|| Arc::new(build())).clone()
    }

    /// Adds an empty slot for the block of this kind, unless another thread has just added one. Returns the slot.
    fn add_slot(&self, kind: &BlockKind) -> Slot {
        let new_slot = Slot::default();
        self.0.rcu(|entries| {
            let mut entries = Vec::clone(entries);
            if find_slot(&entries, kind).is_none() {
                entries.push((kind.clone(), new_slot.clone()));
                let excess = entries.len().saturating_sub(MAX_BLOCKS);
                entries.drain(..excess);
            }
            entries
        });
        // If another thread has added a slot first, use that one. If the cache has no slot for this kind any more, use
        // the new one.
        find_slot(&self.0.load(), kind).unwrap_or(new_slot)
    }
}

/// Returns the slot for the block of this kind.
fn find_slot(entries: &[(BlockKind, Slot)], kind: &BlockKind) -> Option<Slot> {
    entries.iter().find(|(entry_kind, _)| entry_kind == kind).map(|(_, slot)| slot.clone())
}
