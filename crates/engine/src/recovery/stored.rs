//! What one partition is made from, opened and not read: an image's directory, and the changes of the logs
//! behind it. Any *span* of a table, the keys from the first one of a block of its image to the next block's,
//! can be made by itself (docs/restart.md).
//!
//! Invariants:
//! 1. The spans of a table cover all keys and do not overlap: the first one begins at the least key, the
//!    last one has no end. A table without a block has one span.
//! 2. Making a span changes nothing: it can be done again, and by several workers at once, with equal rows.
//!
//! Not here: which spans are in the partition already (row/unrestored.rs).

use liger_fabric::disk::DiskFile;
use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;

use super::directory::Directory;
use super::error::RecoveryError;
use super::image_file::{Block, ImageFile};
use super::manifest::HostManifest;
use super::replay::{Changes, RecoveredRow, Replayed, replay};
use crate::catalog::Catalog;
use crate::tables::key::Key;
use crate::txn::TableId;

/// An image, and the file that it is in.
struct StoredImage {
    directory: Directory,
    file: DiskFile,
    image: ImageFile,
}

/// What one partition is made from.
pub struct Stored {
    /// Its number, and the number of all partitions.
    partition: (PartitionId, u16),
    image: Option<StoredImage>,
    changes: Changes,
}

impl Stored {
    /// Opens what a partition, by its number and the number of all partitions, is made from: the image that a
    /// host's manifest names (none: there is none), and all changes behind it.
    ///
    /// # Errors
    /// If the image is missing or damaged, or a change is of no row of the partition.
    pub fn open<F: Fabric>(
        cx: &Cx<F>,
        catalog: &Catalog,
        partition: (PartitionId, u16),
        image: Option<(&Directory, &HostManifest)>,
        mut changes: Changes,
    ) -> Result<Self, RecoveryError> {
        changes.sort();
        changes.check(catalog, partition)?;
        let open = |(directory, manifest)| Self::open_image(cx, catalog, directory, manifest, partition.0);
        Ok(Self { partition, image: image.map(open).transpose()?, changes })
    }

    fn open_image<F: Fabric>(
        cx: &Cx<F>,
        catalog: &Catalog,
        directory: &Directory,
        manifest: &HostManifest,
        partition: PartitionId,
    ) -> Result<StoredImage, RecoveryError> {
        assert_eq!(directory.host(), manifest.host, "a host's image is in its own directory");
        let image = manifest.images().iter().find(|image| image.partition == partition);
        let entry = image.expect("the host that has an image was looked for");
        let name = entry.file_name();
        let missing = || RecoveryError::Missing { host: manifest.host, file: name.clone() };
        let file = directory.open(cx, &name)?.ok_or_else(missing)?;
        let head = entry.head(manifest);
        let mut read = |offset: u64, out: &mut [u8]| directory.read(cx, &file, offset, out);
        let image = ImageFile::open(catalog, &name, &head, &entry.end, &mut read)?;
        Ok(StoredImage { directory: directory.clone(), file, image })
    }

    /// How many spans a table has.
    pub fn spans(&self, table: TableId) -> usize {
        self.image.as_ref().map_or(0, |stored| stored.image.blocks_of(table).len()).max(1)
    }

    /// The span of a table that a key belongs to.
    pub fn span_of(&self, table: TableId, key: &Key) -> usize {
        let Some(StoredImage { image, .. }) = &self.image else { return 0 };
        let blocks = &image.blocks()[image.blocks_of(table)];
        let span = blocks.partition_point(|place| place.first <= *key).saturating_sub(1);
        debug_assert!(span < self.spans(table), "span {span} of {}", self.spans(table));
        span
    }

    /// The first key of a span; `None`: it begins with the least one.
    pub fn first_key(&self, table: TableId, span: usize) -> Option<&Key> {
        let StoredImage { image, .. } = self.image.as_ref().filter(|_| span > 0)?;
        image.blocks()[image.blocks_of(table)].get(span).map(|place| &place.first)
    }

    /// Bytes of the image that a span needs.
    pub fn span_bytes(&self, table: TableId, span: usize) -> u64 {
        let Some(StoredImage { image, .. }) = &self.image else { return 0 };
        image.blocks_of(table).nth(span).map_or(0, |block| image.block_bytes(block))
    }

    /// Rows of its image.
    pub fn image_rows(&self) -> u64 {
        self.image.as_ref().map_or(0, |stored| stored.image.end().rows)
    }

    /// Bytes of its image.
    pub fn image_bytes(&self) -> u64 {
        self.image.as_ref().map_or(0, |stored| stored.image.end().bytes)
    }

    /// Changes that belong to it.
    pub fn changes(&self) -> u64 {
        self.changes.len() as u64
    }

    /// Shows all rows, in the order of tables and keys.
    ///
    /// # Errors
    /// As [`Stored::make`].
    pub fn make_all<F: Fabric>(
        &self,
        cx: &Cx<F>,
        catalog: &Catalog,
        mut show: impl FnMut(RecoveredRow<'_>) -> Result<(), RecoveryError>,
    ) -> Result<Replayed, RecoveryError> {
        let mut all = Replayed::default();
        for table in catalog.relations().iter().map(|relation| relation.id) {
            for span in 0..self.spans(table) {
                let Replayed { rows, image_rows, changes } =
                    self.make(cx, catalog, (table, span), &mut show)?;
                all.rows += rows;
                all.image_rows += image_rows;
                all.changes += changes;
            }
        }
        debug_assert_eq!(all.image_rows, self.image_rows(), "the spans of all tables cover all rows");
        debug_assert!(all.changes <= self.changes(), "a change is applied once");
        Ok(all)
    }

    /// Shows the rows of one span of a table, in the order of their keys.
    ///
    /// # Errors
    /// If the block or a change of the log is damaged, or `show` fails.
    pub fn make<F: Fabric>(
        &self,
        cx: &Cx<F>,
        catalog: &Catalog,
        (table, span): (TableId, usize),
        show: impl FnMut(RecoveredRow<'_>) -> Result<(), RecoveryError>,
    ) -> Result<Replayed, RecoveryError> {
        debug_assert!(span < self.spans(table), "span {span} of {}", self.spans(table));
        let (low, high) = (self.first_key(table, span), self.first_key(table, span + 1));
        debug_assert!(low.is_none() || high.is_none() || low < high, "spans do not overlap");
        let changes = (&self.changes, self.changes.span(table, low, high));
        let block = match &self.image {
            None => None,
            Some(StoredImage { directory, file, image }) => image
                .blocks_of(table)
                .nth(span)
                .map(|block| {
                    let mut read = |offset: u64, out: &mut [u8]| directory.read(cx, file, offset, out);
                    image.block(catalog, block, &mut read)
                })
                .transpose()?,
        };
        // A table without rows is in an image, too.
        let rows = self.image.is_some().then(|| block.iter().flat_map(Block::rows));
        replay(catalog, self.partition, rows, changes, show)
    }
}
