//! The cache of blocks in a catalog.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use super::{BlockKind, ToolBlock};

/// The most blocks that a catalog keeps; the oldest is removed first. With more kinds in use at the same time, results
/// are slower but correct.
const MAX_BLOCKS: usize = 16;

type Slot = Arc<OnceLock<Arc<ToolBlock>>>;

/// Blocks by their kind. Readers never lock; two threads that request a new block at the same time get the same one.
#[derive(Debug, Default)]
pub(in crate::catalog) struct Blocks(ArcSwap<Vec<(BlockKind, Slot)>>);

impl Blocks {
    /// Returns the block of this kind; `build` makes it once.
    pub(in crate::catalog) fn get(&self, kind: &BlockKind, build: impl FnOnce() -> ToolBlock) -> Arc<ToolBlock> {
        let found = find(&self.0.load(), kind);
        let slot = found.unwrap_or_else(|| self.slot(kind));
        slot.get_or_init(|| Arc::new(build())).clone()
    }

    fn slot(&self, kind: &BlockKind) -> Slot {
        let fresh = Slot::default();
        self.0.rcu(|kept| {
            let mut kept = Vec::clone(kept);
            if find(&kept, kind).is_none() {
                kept.push((kind.clone(), fresh.clone()));
                let over = kept.len().saturating_sub(MAX_BLOCKS);
                kept.drain(..over);
            }
            kept
        });
        // Use the slot of another thread if it was faster; otherwise ours, even if it was dropped since.
        find(&self.0.load(), kind).unwrap_or(fresh)
    }
}

fn find(kept: &[(BlockKind, Slot)], kind: &BlockKind) -> Option<Slot> {
    kept.iter().find(|(known, _)| known == kind).map(|(_, slot)| slot.clone())
}
