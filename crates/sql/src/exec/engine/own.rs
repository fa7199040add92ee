//! A session's own objects: temporary tables with their indexes and sequences, temporary views, and the
//! schema that they are in.
//!
//! Their descriptions lie beside the pod's catalog in the pictures of this session's transactions, their rows
//! beside the pod's rows (storage/private.rs). The schema is made with the first of them, and is found by
//! its own name and as `pg_temp`.
//!
//! Invariants:
//! 1. What a transaction has made of them counts when its commit has succeeded, and is forgotten otherwise.
//! 2. [`EngineStore::version`] grows with each change of them, also by a rollback: plans over them are made
//!    again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::EngineStore;
use crate::catalog::Catalog;
use crate::catalog::change::rows_of;
use crate::catalog::object::{Grant, Object, Schema};
use crate::catalog::sequence;
use crate::error::Result;
use crate::exec::privilege;
use crate::exec::session::OWN_SCHEMA;
use crate::exec::store::lost;
use crate::storage::access::Access;
use crate::storage::private::{Beside, FIRST_PRIVATE, PrivateRows};
use crate::types::Oid;

/// A session's own objects, as the last transaction has left them, and their rows.
pub(super) struct Own {
    objects: BTreeMap<Oid, Arc<Object>>,
    pub(super) rows: PrivateRows,
    /// The number of the next one.
    pub(super) next: Oid,
    /// The picture that was made last: of which catalog, and with these beside it.
    picture: Option<(Arc<Catalog>, Arc<Catalog>)>,
}

impl Own {
    pub(super) fn new(rows: PrivateRows) -> Own {
        Own { objects: BTreeMap::new(), rows, next: FIRST_PRIVATE, picture: None }
    }

    /// Whether there ever was one.
    pub(super) fn is_used(&self) -> bool {
        self.next > FIRST_PRIVATE
    }

    /// A picture of the pod's catalog with these objects beside.
    pub(super) fn beside(&mut self, pod: Arc<Catalog>) -> Arc<Catalog> {
        if self.objects.is_empty() {
            return pod;
        }
        if let Some((of, picture)) = &self.picture
            && Arc::ptr_eq(of, &pod)
        {
            return picture.clone();
        }
        let picture = Arc::new(pod.beside(&self.objects));
        self.picture = Some((pod, picture.clone()));
        picture
    }

    /// The transaction has gone on with another picture of the pod's catalog.
    pub(super) fn forget_picture(&mut self) {
        self.picture = None;
    }

    fn become_of(&mut self, objects: BTreeMap<Oid, Arc<Object>>) {
        (self.objects, self.picture) = (objects, None);
    }

    /// The transaction has committed; `changed`: the picture that it has made of them.
    pub(super) fn commit(&mut self, changed: Option<&Catalog>) {
        let Some(picture) = changed else { return self.rows.commit(None) };
        let mut live = BTreeSet::new();
        for object in picture.own_objects() {
            live.extend(rows_of(object).into_iter().map(|rows| rows.object.0));
            // A sequence's number is a row of its own.
            live.extend(matches!(&**object, Object::Sequence(_)).then_some(object.oid()));
        }
        self.become_of(picture.own_objects().map(|object| (object.oid(), object.clone())).collect());
        self.rows.commit(Some(&live));
    }

    /// Forgets all of them.
    fn discard(&mut self) {
        self.become_of(BTreeMap::new());
        self.rows.clear();
    }
}

impl EngineStore {
    /// Whether a name is that of this session's schema.
    pub(super) fn names_own(&self, schema: &str) -> bool {
        schema == OWN_SCHEMA || schema == &*self.own_name
    }

    pub(super) fn existing_own_schema(&self) -> Option<Oid> {
        (self.own_version.get() > 0).then(|| self.catalog().schema(&self.own_name).map(|it| it.oid))?
    }

    /// Makes the session's schema, in which everybody may do everything that the session becomes.
    pub(super) fn make_own_schema(&self) -> Result<Oid> {
        if let Some(there) = self.existing_own_schema() {
            return Ok(there);
        }
        let all = privilege::USAGE | privilege::CREATE;
        let grants = vec![Grant { grantee: 0, grantor: 0, privileges: all, grantable: 0 }];
        self.change(true, |tx, working, _| {
            let oid = working.take_oids(tx, FIRST_PRIVATE, 1)?;
            let name = self.own_name.to_string();
            let schema = Schema { oid, name, grants, ..Schema::default() };
            working.create(tx, Object::Schema(schema))?;
            Ok(oid)
        })
    }

    /// Does something with an own sequence that no rollback takes back.
    pub(super) fn with_own_sequence<R>(
        &self,
        work: impl FnOnce(&mut dyn Access, &Catalog) -> Result<R>,
    ) -> Result<R> {
        self.on_worker(|running, own| {
            let catalog = running.catalog.catalog().clone();
            own.rows.for_good(|rows| work(&mut Beside::new(&mut *running.tx, rows), &catalog))
        })
    }

    /// The next number of an own sequence.
    pub(super) fn next_own_value(&self, oid: Oid) -> Result<i64> {
        self.with_own_sequence(|tx, catalog| {
            let sequence = catalog.sequence(oid).ok_or_else(|| lost(oid))?;
            sequence::take(tx, catalog, sequence, 1)?.take().ok_or_else(|| lost(oid))
        })
    }

    /// Drops all of them.
    pub(super) fn discard_all(&self) -> Result<()> {
        if self.has_begun() {
            let own: Vec<Oid> = self.catalog().own_objects().map(|object| object.oid()).collect();
            return self
                .change(true, |tx, working, _| own.iter().try_for_each(|oid| working.drop_object(tx, *oid)));
        }
        self.own.borrow_mut().discard();
        self.own_version.set(self.own_version.get() + 1);
        self.refresh();
        Ok(())
    }
}
