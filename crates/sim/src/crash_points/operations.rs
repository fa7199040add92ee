//! The operations whose every verb is a crash point: small programs on three hosts.
//!
//! Host A (0) has partitions 0 and 3, host B (1) partition 1, host C (2) partition 2. Even keys exist. In
//! operations whose names begin with "plain" another access method keeps the table, or its index, or both:
//! whoever inserts or deletes changes what both methods keep in one transaction.

use std::ops::ControlFlow;

use liger_engine::row::Rows;
use liger_engine::{Key, KeyRange, Transaction, TxnError};
use liger_fabric::HostId;
use liger_fabric::sim::CrashDomain;
use liger_pod::membership::{HostState, Slot};

use super::staged::Actor;
use crate::pod::Kept;
use crate::rows::{BY_GROUP, ITEMS, PlainTables, item_key, items, new_row};

/// The host that asks, the owner of the rows it asks for, and one more.
pub const A: HostId = HostId(0);
/// See [`A`].
pub const B: HostId = HostId(1);
/// See [`A`].
pub const C: HostId = HostId(2);

/// B's partition.
const OF_B: i16 = 1;
/// C's partition.
const OF_C: i16 = 2;

/// Who dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// This host.
    Host(HostId),
    /// Of the hosts that survive A, the one that becomes its successor.
    Successor,
    /// The other one.
    Bystander,
}

/// What a host does in one phase.
pub type Part<M> = fn(&mut Actor<'_, M>);

/// An operation, on hosts whose tables are kept so.
pub struct Operation<M: Kept = Rows> {
    /// Its name.
    pub name: &'static str,
    /// Who dies.
    pub subject: Subject,
    /// Keys of each partition.
    pub keys: i32,
    /// Bytes of each worker's ring: with few of them transactions have several records.
    pub ring_bytes: u64,
    /// What another access method than rows keeps: only hosts that have it can play.
    pub plain: PlainTables,
    /// A comes back once when it has died, and does this.
    pub comes_back: Option<Part<M>>,
    /// What happens before, one after the other.
    pub prepare: &'static [(HostId, Part<M>)],
    /// What happens under the eyes of the killer.
    pub act: (HostId, Part<M>),
    /// The killer begins to look only when somebody says so.
    pub opens_later: bool,
    /// What these hosts do again and again meanwhile.
    pub meanwhile: &'static [(HostId, Part<M>)],
}

/// All operations, as hosts of rows alone play them.
pub const OPERATIONS: &[Operation] = Operation::<Rows>::ALL;

impl<M: Kept> Operation<M> {
    /// What most operations have in common.
    const USUAL: Self = Operation {
        name: "",
        subject: Subject::Host(A),
        keys: 8,
        ring_bytes: 4 << 10,
        plain: PlainTables::None,
        comes_back: None,
        prepare: &[],
        act: (A, |_| {}),
        opens_later: false,
        meanwhile: &[],
    };

    /// All of them.
    pub const ALL: &'static [Self] = &[
        Operation {
            name: "update-foreign",
            prepare: &[(C, |c| c.reads(OF_B, &[0]))],
            act: (A, |a| a.updates_and_waits(&[(OF_B, 0), (0, 0), (OF_B, 2)])),
            ..Self::USUAL
        },
        Operation {
            name: "insert-foreign",
            act: (A, |a| a.inserts_and_waits(&[(OF_B, 1), (OF_B, 5)])),
            ..Self::USUAL
        },
        Operation {
            name: "delete-foreign",
            prepare: &[(A, |a| a.reads(OF_B, &[2, 4])), (C, |c| c.reads(OF_B, &[2]))],
            act: (A, |a| a.deletes_and_waits(&[(OF_B, 2), (OF_B, 6)])),
            ..Self::USUAL
        },
        Operation {
            name: "delete-and-go-on",
            prepare: &[(A, |a| a.reads(OF_B, &[2, 4, 6]))],
            act: (A, |a| {
                a.deletes(&[(OF_B, 2)]);
                a.updates(&[(0, 0)]);
                a.deletes(&[(OF_B, 4), (OF_B, 6)]);
                a.updates(&[(0, 2)]);
                a.waits();
            }),
            meanwhile: &[(B, |b| b.sleeps(20))],
            ..Self::USUAL
        },
        Operation {
            name: "update-own-shared",
            subject: Subject::Host(B),
            prepare: &[(A, |a| a.updates(&[(OF_B, 0), (OF_B, 2)])), (C, |c| c.reads(OF_B, &[0, 2]))],
            act: (B, |b| b.updates_and_waits(&[(OF_B, 0), (OF_B, 2), (OF_B, 4)])),
            ..Self::USUAL
        },
        Operation {
            name: "replace-own-shared",
            subject: Subject::Host(B),
            prepare: &[(A, |a| a.scans(OF_B))],
            act: (B, |b| {
                b.deletes_and_waits(&[(OF_B, 2)]);
                b.inserts_and_waits(&[(OF_B, 1), (OF_B, 2)]);
            }),
            ..Self::USUAL
        },
        Operation {
            name: "scan",
            prepare: &[(C, |c| c.updates(&[(OF_B, 2)]))],
            act: (A, |a| {
                a.scans_and_updates(&[OF_B, OF_C], (0, 2));
                a.waits();
            }),
            ..Self::USUAL
        },
        Operation {
            name: "abort",
            act: (A, |a| a.gives_up(&[(OF_B, 0)], &[(OF_B, 1)], &[(OF_B, 2)])),
            prepare: &[(C, |c| c.reads(OF_B, &[0]))],
            ..Self::USUAL
        },
        Operation {
            name: "move-in",
            subject: Subject::Host(B),
            act: (A, |a| {
                a.updates(&[(OF_B, 0)]);
                a.scans(OF_B);
            }),
            ..Self::USUAL
        },
        Operation {
            name: "move-in-for-insert",
            subject: Subject::Host(B),
            act: (A, |a| a.inserts_and_waits(&[(OF_B, 1), (OF_B, 5)])),
            ..Self::USUAL
        },
        Operation {
            name: "remove-for-delete",
            subject: Subject::Host(B),
            prepare: &[(A, |a| a.reads(OF_B, &[2, 4]))],
            act: (A, |a| {
                a.deletes_and_waits(&[(OF_B, 2), (OF_B, 4)]);
                a.idles(12);
            }),
            ..Self::USUAL
        },
        Operation {
            name: "replace-foreign",
            subject: Subject::Host(B),
            prepare: &[(A, |a| a.reads(OF_B, &[2]))],
            act: (A, |a| {
                a.deletes(&[(OF_B, 2)]);
                a.inserts(&[(OF_B, 2)]);
                a.idles(12);
            }),
            ..Self::USUAL
        },
        Operation {
            name: "move-out",
            subject: Subject::Host(B),
            prepare: &[
                (A, |a| a.updates(&[(OF_B, 0), (OF_B, 2), (OF_B, 4)])),
                (C, |c| c.reads(OF_B, &[0, 6])),
            ],
            act: (B, |b| b.moves_out(3)),
            ..Self::USUAL
        },
        Operation {
            name: "split",
            subject: Subject::Host(B),
            keys: 128,
            prepare: &[(A, |a| a.reads_upto(OF_B, 116))],
            act: (A, |a| a.reads_one_by_one(OF_B, &[118, 120, 122, 124, 126])),
            ..Self::USUAL
        },
        Operation {
            name: "checkpoint",
            subject: Subject::Host(B),
            prepare: &[
                (A, |a| a.updates(&[(OF_B, 0), (OF_B, 2)])),
                (B, |b| b.updates(&[(OF_B, 4), (OF_B, 6)])),
            ],
            act: (B, |b| b.takes_a_checkpoint()),
            meanwhile: &[(A, |a| a.updates(&[(OF_B, 0), (OF_B, 4)]))],
            ..Self::USUAL
        },
        Operation { name: "takeover", subject: Subject::Successor, ..Self::A_DIES },
        Operation { name: "resolve", subject: Subject::Bystander, ..Self::A_DIES },
        Operation {
            name: "rejoin",
            comes_back: Some(|a| {
                a.updates_and_waits(&[(OF_B, 0), (0, 0)]);
                a.inserts_and_waits(&[(0, 1)]);
            }),
            act: (C, |c| {
                c.kills(A);
                c.awaits_return(A);
            }),
            ..Self::A_DIES
        },
        Operation {
            name: "insert-after-takeover",
            subject: Subject::Host(C),
            prepare: &[(C, |c| c.inserts_and_waits(&[(0, 5)])), (B, |b| b.deletes_and_waits(&[(0, 5)]))],
            act: (C, |c| {
                c.kills(A);
                c.awaits_end(A);
                c.watched();
                c.inserts_and_waits(&[(0, 5)]);
            }),
            ..Self::A_DIES
        },
        Operation {
            name: "heir-after-return",
            subject: Subject::Successor,
            comes_back: Some(|a| {
                a.updates_and_waits(&[(OF_B, 0), (0, 0)]);
                a.takes_a_checkpoint();
            }),
            act: (C, |c| {
                c.kills(A);
                c.awaits_return(A);
                c.learns_successor();
                c.watched();
                c.updates_and_waits(&[(0, 2), (3, 0), (OF_B, 2)]);
            }),
            ..Self::A_DIES
        },
        Operation {
            name: "long-commit",
            keys: 16,
            ring_bytes: 1 << 10,
            prepare: &[(C, |c| c.reads(OF_B, &[0, 2])), (A, |a| a.reads(OF_B, &[4, 6]))],
            act: (A, |a| {
                a.changes(&[(OF_B, 0), (0, 0)], &Self::ODD, &[(OF_B, 2), (OF_C, 2), (0, 2)]);
                a.waits();
            }),
            ..Self::USUAL
        },
        Operation {
            name: "long-takeover",
            subject: Subject::Successor,
            keys: 16,
            ring_bytes: 1 << 10,
            meanwhile: &[
                (A, |a| a.changes(&[(OF_B, 0), (0, 0)], &Self::ODD, &[(OF_B, 2), (OF_C, 2)])),
                (B, |b| b.updates(&[(0, 2), (OF_B, 8)])),
            ],
            ..Self::A_DIES
        },
        Operation {
            name: "plain-update",
            plain: PlainTables::Table,
            prepare: &[(C, |c| c.reads(OF_B, &[0]))],
            act: (A, |a| a.updates_and_waits(&[(OF_B, 0), (0, 0), (OF_B, 2)])),
            ..Self::USUAL
        },
        Operation {
            name: "plain-insert",
            plain: PlainTables::Table,
            act: (A, |a| a.inserts_and_waits(&[(OF_B, 1), (OF_B, 5)])),
            ..Self::USUAL
        },
        Operation {
            name: "plain-delete",
            plain: PlainTables::Index,
            prepare: &[(A, |a| a.reads(OF_B, &[2, 4])), (C, |c| c.scans(OF_B))],
            act: (A, |a| a.deletes_and_waits(&[(OF_B, 2), (OF_B, 6)])),
            ..Self::USUAL
        },
        Operation {
            name: "plain-all-in-one",
            plain: PlainTables::Both,
            act: (A, |a| {
                a.changes(&[(OF_B, 0), (0, 0)], &[(OF_B, 1), (OF_C, 1)], &[(OF_B, 2)]);
                a.waits();
            }),
            meanwhile: &[(B, |b| b.updates(&[(OF_B, 4)]))],
            ..Self::USUAL
        },
        Operation {
            name: "plain-abort",
            plain: PlainTables::Index,
            act: (A, |a| a.gives_up(&[(OF_B, 0)], &[(OF_B, 1)], &[(OF_B, 2)])),
            prepare: &[(C, |c| c.scans(OF_B))],
            ..Self::USUAL
        },
        Operation {
            name: "plain-scan",
            plain: PlainTables::Index,
            prepare: &[(C, |c| c.updates(&[(OF_B, 2)]))],
            act: (A, |a| {
                a.scans_and_updates(&[OF_B, OF_C], (0, 2));
                a.waits();
            }),
            ..Self::USUAL
        },
        Operation {
            name: "plain-owner",
            subject: Subject::Host(B),
            plain: PlainTables::Table,
            prepare: &[(A, |a| a.updates(&[(OF_B, 0), (OF_B, 2)]))],
            act: (A, |a| {
                a.changes(&[(OF_B, 0)], &[(OF_B, 1)], &[(OF_B, 2)]);
                a.idles(12);
            }),
            meanwhile: &[(B, |b| b.changes(&[(OF_B, 4)], &[(OF_B, 3)], &[(OF_B, 6)]))],
            ..Self::USUAL
        },
        Operation {
            name: "plain-checkpoint",
            subject: Subject::Host(B),
            plain: PlainTables::Table,
            prepare: &[
                (A, |a| a.inserts(&[(OF_B, 1), (OF_B, 3)])),
                (B, |b| b.updates(&[(OF_B, 4), (OF_B, 6)])),
            ],
            act: (B, |b| b.takes_a_checkpoint()),
            meanwhile: &[(A, |a| a.updates(&[(OF_B, 0), (OF_B, 4)]))],
            ..Self::USUAL
        },
        Operation {
            name: "plain-takeover",
            subject: Subject::Successor,
            plain: PlainTables::Table,
            ..Self::A_DIES
        },
        Operation {
            name: "plain-index-takeover",
            subject: Subject::Successor,
            plain: PlainTables::Index,
            ..Self::A_DIES
        },
        Operation {
            name: "plain-resolve",
            subject: Subject::Bystander,
            plain: PlainTables::Both,
            ..Self::A_DIES
        },
        Operation {
            name: "plain-rejoin",
            plain: PlainTables::Table,
            comes_back: Some(|a| {
                a.updates_and_waits(&[(OF_B, 0), (0, 0)]);
                a.changes(&[(3, 2)], &[(0, 1)], &[(OF_B, 2)]);
                a.waits();
            }),
            act: (C, |c| {
                c.kills(A);
                c.awaits_return(A);
            }),
            ..Self::A_DIES
        },
    ];

    /// Rows of everybody that do not exist: too many for one record of a short ring.
    const ODD: [(i16, i32); 10] = [
        (OF_B, 1),
        (OF_B, 3),
        (OF_C, 1),
        (0, 1),
        (OF_B, 5),
        (OF_C, 3),
        (0, 5),
        (OF_B, 7),
        (OF_C, 5),
        (OF_B, 9),
    ];

    /// A dies among rows of everybody, and others have rows of A.
    const A_DIES: Self = Operation {
        prepare: &[
            (B, |b| b.updates(&[(0, 0), (0, 2), (3, 4)])),
            (C, |c| c.reads(0, &[0, 6])),
            (A, |a| a.inserts(&[(0, 3)])),
        ],
        act: (C, |c| {
            c.kills(A);
            c.awaits_recovery(A);
        }),
        opens_later: true,
        meanwhile: &[(A, |a| a.mixes()), (B, |b| b.updates(&[(0, 2), (OF_B, 0)]))],
        ..Self::USUAL
    };
}

/// The words that programs are made of.
impl<M: Kept> Actor<'_, M> {
    /// Changes rows, in one transaction.
    fn updates(&mut self, rows: &[(i16, i32)]) {
        self.does(|txn, value| {
            rows.iter().try_for_each(|(part, id)| {
                txn.update(ITEMS, &item_key(*part, *id), |row| row.set(items::VALUE, value)).map(drop)
            })
        });
    }

    fn updates_and_waits(&mut self, rows: &[(i16, i32)]) {
        self.updates(rows);
        self.waits();
    }

    /// Inserts rows, in one transaction.
    fn inserts(&mut self, rows: &[(i16, i32)]) {
        self.does(|txn, value| rows.iter().try_for_each(|(part, id)| insert(txn, (*part, *id), value)));
    }

    fn inserts_and_waits(&mut self, rows: &[(i16, i32)]) {
        self.inserts(rows);
        self.waits();
    }

    fn deletes(&mut self, rows: &[(i16, i32)]) {
        self.does(|txn, _| {
            rows.iter().try_for_each(|(part, id)| txn.delete(ITEMS, &item_key(*part, *id)).map(drop))
        });
    }

    fn deletes_and_waits(&mut self, rows: &[(i16, i32)]) {
        self.deletes(rows);
        self.waits();
    }

    /// Changes, inserts and deletes rows, in one transaction.
    fn changes(&mut self, updated: &[(i16, i32)], inserted: &[(i16, i32)], deleted: &[(i16, i32)]) {
        self.does(|txn, value| change(txn, [updated, inserted, deleted], value));
    }

    /// Does all of that and takes it back.
    fn gives_up(&mut self, updated: &[(i16, i32)], inserted: &[(i16, i32)], deleted: &[(i16, i32)]) {
        self.does_in_vain(|txn, value| change(txn, [updated, inserted, deleted], value));
    }

    fn reads(&mut self, part: i16, ids: &[i32]) {
        self.does(|txn, _| {
            ids.iter().try_for_each(|id| txn.get(ITEMS, &item_key(part, *id), |_| ()).map(drop))
        });
    }

    fn reads_one_by_one(&mut self, part: i16, ids: &[i32]) {
        ids.iter().for_each(|id| self.reads(part, &[*id]));
    }

    fn reads_upto(&mut self, part: i16, id: i32) {
        let range = KeyRange::between(item_key(part, 0), item_key(part, id));
        self.does(|txn, _| txn.scan(ITEMS, &range, |_, _| ControlFlow::Continue(())));
    }

    /// Reads a whole partition, and its index.
    fn scans(&mut self, part: i16) {
        self.does(|txn, _| scan(txn, part));
    }

    fn scans_and_updates(&mut self, parts: &[i16], (part, id): (i16, i32)) {
        self.does(|txn, value| {
            parts.iter().try_for_each(|part| scan(txn, *part))?;
            txn.update(ITEMS, &item_key(part, id), |row| row.set(items::VALUE, value)).map(drop)
        });
    }

    /// Changes everybody's rows; when it is to die, somewhere in the commit of one more such transaction.
    fn mixes(&mut self) {
        let (scene, cx) = (self.scene, self.cx);
        let (kind, id, verb) = (cx.random_below(4), cx.random_below(8) as i32, 1 + cx.random_below(150));
        let all = [(0, 0), (0, 2), (0, 6), (OF_B, 0), (OF_B, 2), (OF_C, 0), (OF_C, id & !1)];
        self.does(|txn, value| {
            for (part, id) in all {
                txn.update(ITEMS, &item_key(part, id), |row| row.set(items::VALUE, value))?;
            }
            match kind {
                0 => insert(txn, (OF_B, id | 1), value)?,
                1 => drop(txn.delete(ITEMS, &item_key(OF_C, 4))?),
                _ => {}
            }
            // It holds all its locks.
            if let Some(domain) = scene.doom.take() {
                cx.fabric().kill_before(cx.host(), verb, domain);
            }
            Ok(())
        });
    }

    /// Does nothing for anybody.
    fn sleeps(&mut self, turns: u64) {
        (0..turns).for_each(|_| self.cx.pause());
    }

    /// Moves so many rows of this host out.
    fn moves_out(&mut self, rows: usize) {
        let mut moved = 0;
        for _ in 0..100 {
            moved += self.engine.method().rows().move_out_some(self.cx, rows - moved);
            if moved == rows {
                return;
            }
            self.turn();
        }
    }

    /// Lets this host's checkpointer take a checkpoint, and waits for it.
    fn takes_a_checkpoint(&mut self) {
        let log = self.engine.log().expect("the pod keeps a log");
        let epoch = log.clock().now(self.cx) + 1;
        log.want_checkpoint(self.cx, epoch);
        while log.begin_of(self.cx, self.cx.host()) < epoch && !self.engine.is_fenced() {
            self.turn();
        }
    }

    /// Lets a host die in a commit after a while, in some crash domain.
    fn kills(&mut self, host: HostId) {
        self.idles(self.cx.random_below(50));
        let domains = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];
        self.scene.doom.set(Some(domains[self.cx.random_below(3) as usize]));
        while self.cx.fabric().incarnation(host) == 1 {
            self.turn();
        }
    }

    fn state(&self, host: HostId) -> HostState {
        Slot::load(self.cx, &self.world.plan, host).expect("an intact word").state
    }

    /// Waits until a dead host is suspected, and then under the eyes of the killer until it is recovered.
    fn awaits_recovery(&mut self, dead: HostId) {
        while self.state(dead) == HostState::Alive {
            self.turn();
        }
        self.watched();
        self.awaits_end(dead);
        self.learns_successor();
    }

    fn awaits_end(&mut self, dead: HostId) {
        while self.state(dead) != HostState::Free {
            self.turn();
        }
    }

    fn learns_successor(&mut self) {
        let successor = self.cx.load(self.world.plan.controller().word(1));
        self.scene.found_successor(HostId(successor as u8));
    }

    /// Waits until a dead host has come back and done what it came for, or has died once more.
    fn awaits_return(&mut self, dead: HostId) {
        while !self.scene.has_returned() && self.cx.fabric().incarnation(dead) <= 2 {
            self.turn();
        }
    }
}

fn insert<F: Transaction>(txn: &mut F, (part, id): (i16, i32), value: i64) -> Result<(), TxnError> {
    match txn.insert(ITEMS, &new_row(part, id, value)) {
        Err(TxnError::DuplicateKey { .. }) => Ok(()),
        ended => ended,
    }
}

fn change<T: Transaction>(
    txn: &mut T,
    [updated, inserted, deleted]: [&[(i16, i32)]; 3],
    value: i64,
) -> Result<(), TxnError> {
    for (part, id) in updated {
        txn.update(ITEMS, &item_key(*part, *id), |row| row.set(items::VALUE, value))?;
    }
    inserted.iter().try_for_each(|at| insert(txn, *at, value))?;
    deleted.iter().try_for_each(|(part, id)| txn.delete(ITEMS, &item_key(*part, *id)).map(drop))
}

fn scan<T: Transaction>(txn: &mut T, part: i16) -> Result<(), TxnError> {
    let all = KeyRange::prefix(Key::build().i16(part), 1);
    txn.scan(ITEMS, &all, |_, _| ControlFlow::Continue(()))?;
    let group = KeyRange::prefix(Key::build().i16(part).i16(0), 1);
    txn.scan_index(BY_GROUP, &group, |_| ControlFlow::Continue(()))
}

/// What every host that is left does in the end: changes every row that exists, and makes and removes one,
/// so that a lock that stayed is met.
pub(super) fn prove<M: Kept>(actor: &mut Actor<'_, M>, keys: i32) {
    // Of a partition with many rows, those at both ends.
    let ids = (0..keys).filter(|id| id % 2 == 0 && (*id < 8 || *id >= keys - 8));
    let rows: Vec<(i16, i32)> = (0..4).flat_map(|part| ids.clone().map(move |id| (part, id))).collect();
    rows.chunks(4).for_each(|some| actor.updates(some));
    let mine = 100 * keys + 2 * i32::from(actor.cx.host().0) + 1;
    for part in 0..4 {
        actor.inserts(&[(part, mine)]);
        actor.scans(part);
        actor.deletes(&[(part, mine)]);
    }
    actor.waits();
}
