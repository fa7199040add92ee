//! The operations whose every verb is a crash point: small programs on three hosts.
//!
//! Host A (0) has partitions 0 and 3, host B (1) partition 1, host C (2) partition 2. Even keys exist. In
//! operations whose names begin with "plain" another access method keeps the table, or its index, or both:
//! whoever inserts or deletes changes what both methods keep in one transaction.

use liger_engine::row::Rows;
use liger_fabric::HostId;

use super::staged::Actor;
use crate::pod::Kept;
use crate::rows::PlainTables;

/// The host that asks, the owner of the rows it asks for, and one more.
pub const A: HostId = HostId(0);
/// See [`A`].
pub const B: HostId = HostId(1);
/// See [`A`].
pub const C: HostId = HostId(2);

/// B's partition.
pub(super) const OF_B: i16 = 1;
/// C's partition.
pub(super) const OF_C: i16 = 2;

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
            meanwhile: &[(A, |a| a.mixes_with(&Self::ODD, 800)), (B, |b| b.updates(&[(0, 2), (OF_B, 0)]))],
            ..Self::A_DIES
        },
        Operation { name: "hand-over", subject: Subject::Host(B), ..Self::HANDED_OVER },
        Operation { name: "take-what-is-handed-over", ..Self::HANDED_OVER },
        Operation { name: "follow-what-is-handed-over", subject: Subject::Host(C), ..Self::HANDED_OVER },
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
        Operation {
            name: "plain-hand-over",
            subject: Subject::Host(B),
            plain: PlainTables::Table,
            ..Self::HANDED_OVER
        },
        Operation { name: "plain-take-what-is-handed-over", plain: PlainTables::Index, ..Self::HANDED_OVER },
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

    /// B's partition goes to A; all have used it, and C goes on with that.
    const HANDED_OVER: Self = Operation {
        prepare: &[
            (A, |a| a.updates(&[(OF_B, 0), (OF_B, 2)])),
            (C, |c| c.deletes(&[(OF_B, 4)])),
            (B, |b| b.inserts(&[(OF_B, 3)])),
        ],
        act: (A, |a| {
            a.has_handed_over(OF_B, B);
            a.updates_and_waits(&[(OF_B, 0), (OF_B, 6)]);
        }),
        meanwhile: &[(B, |b| b.updates(&[(OF_B, 2)])), (C, |c| c.updates(&[(OF_B, 0), (OF_C, 0)]))],
        ..Self::USUAL
    };

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
