//! The dependency graph and its shortest cycles.
//!
//! A history has far more dependencies than are worth storing: a range read depends on every delete and every
//! insert in its range. But every cycle goes backward somewhere in *any* order of the transactions, and where
//! the order is close to the real one, hardly any dependency goes backward. So:
//! 1. Visit all dependencies once, keeping only how far each transaction is reached backward. Overlapping
//!    backward spans merge into **windows**. Every cycle lies in one window: each gap between its first and
//!    its last transaction is crossed backward by one of its own dependencies.
//! 2. Visit them again, storing those inside a window; no window, no cycle.
//! 3. Strongly connected components (Tarjan), and in each the shortest cycle of the weakest class.

use super::index::{Index, Source};
use super::{Anomaly, CycleClass, Dependency, Edge, Report};
use crate::history::Version;

/// Components reported; a broken run has many and the first few tell the story.
const COMPONENTS_MAX: usize = 8;
/// Dependencies visited while searching one component for one class of cycle; after that the best found
/// stands.
const VISITS_MAX: usize = 20_000_000;

/// A dependency between nodes; `entry` is the state that was seen or replaced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Link {
    from: u32,
    to: u32,
    kind: Dependency,
    by_range: bool,
    entry: usize,
}

/// Finds the cycles of the dependency graph of `index` and adds them to `report`.
pub(super) fn find_cycles(index: &Index<'_>, report: &mut Report) {
    let windows = windows(index, &mut report.ambiguous_absences);
    if windows.iter().all(|&window| window == 0) {
        return;
    }
    let graph = Graph::within(index, &windows);
    for component in graph.components().iter().take(COMPONENTS_MAX) {
        let links = graph.weakest_cycle(component);
        let class = CycleClass::of(links.iter().map(|link| link.kind));
        let edges = links.iter().map(|link| edge(index, link)).collect();
        report.add(Anomaly::Cycle { class, edges });
    }
}

fn edge(index: &Index<'_>, link: &Link) -> Edge {
    let before = &index.entries[link.entry];
    let after: Option<Version> = match link.kind {
        Dependency::WriteRead => before.visible(),
        Dependency::WriteWrite | Dependency::ReadWrite => index.entries[link.entry + 1].visible(),
    };
    Edge {
        from: index.nodes[link.from as usize].id,
        to: index.nodes[link.to as usize].id,
        kind: link.kind,
        key: index.key(before.rank),
        before: before.visible(),
        after,
        by_range: link.by_range,
    }
}

/// Calls `f` with every dependency that one node's own operations give; adds to `ambiguous` the sightings
/// that give none because they cannot be told apart.
fn for_each_link(index: &Index<'_>, node: u32, ambiguous: &mut u64, mut f: impl FnMut(Link)) {
    let mut link = |from: Option<u32>, to: Option<u32>, kind: Dependency, by_range: bool, entry: usize| {
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            f(Link { from, to, kind, by_range, entry });
        }
    };
    let mut sighting = |rank: u32, seen: Option<Version>, by_range: bool| match index.source(rank, seen) {
        Source::Nowhere => {}
        Source::Ambiguous => *ambiguous += 1,
        Source::Entry(entry) => {
            link(index.entries[entry].writer, Some(node), Dependency::WriteRead, by_range, entry);
            if entry + 1 < index.chain(rank).end {
                link(Some(node), index.entries[entry + 1].writer, Dependency::ReadWrite, by_range, entry);
            }
        }
    };
    let operations = &index.nodes[node as usize];
    for &(rank, seen) in &operations.reads {
        sighting(rank, seen, false);
    }
    for scan in &operations.scans {
        scan.for_each(|rank, seen| sighting(rank, seen, true));
    }
    for install in &operations.installs {
        let entry = index.entry_of(install.rank, install.new).expect("chains are built from installs");
        if entry > index.chain(install.rank).start {
            link(index.entries[entry - 1].writer, Some(node), Dependency::WriteWrite, false, entry - 1);
        }
    }
}

/// For each node the number of its window; 0 where no cycle can pass.
fn windows(index: &Index<'_>, ambiguous: &mut u64) -> Vec<u32> {
    let count = index.nodes.len();
    let mut reached_from: Vec<u32> = (0..count as u32).collect();
    for node in 0..count as u32 {
        for_each_link(index, node, ambiguous, |link| {
            let reached = &mut reached_from[link.to as usize];
            *reached = (*reached).max(link.from);
        });
    }
    let mut windows = vec![0; count];
    let (mut last, mut end) = (0, None);
    for node in 0..count {
        let from = reached_from[node] as usize;
        let inside = end.is_some_and(|end| node <= end);
        if !inside && from > node {
            last += 1;
        }
        if inside || from > node {
            windows[node] = last;
            end = end.max(Some(from));
        }
    }
    windows
}

/// Which cycles a search accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accept {
    Writes,
    WritesAndReads,
    OneAntiDependency,
    Any,
}

impl Accept {
    /// Anti-dependencies counted so far after one more link of `kind`; `None` where it is one too many.
    fn step(self, anti: usize, kind: Dependency) -> Option<usize> {
        match (self, kind) {
            (Accept::Any, _) | (_, Dependency::WriteWrite) => Some(anti),
            (Accept::Writes, _) | (Accept::WritesAndReads, Dependency::ReadWrite) => None,
            (_, Dependency::WriteRead) => Some(anti),
            (Accept::OneAntiDependency, Dependency::ReadWrite) => (anti == 0).then_some(1),
        }
    }

    /// Anti-dependencies that a complete cycle has.
    fn wanted(self) -> usize {
        usize::from(self == Accept::OneAntiDependency)
    }
}

struct Graph {
    /// Sorted by `from`, without two of one kind between the same nodes.
    links: Vec<Link>,
    /// Place in `links` of the first one of each node; one more at the end.
    starts: Vec<usize>,
}

impl Graph {
    fn within(index: &Index<'_>, windows: &[u32]) -> Self {
        let mut links: Vec<Link> = Vec::new();
        let mut of_node = Vec::new();
        for node in (0..index.nodes.len() as u32).filter(|&node| windows[node as usize] != 0) {
            for_each_link(index, node, &mut 0, |link| {
                if windows[link.from as usize] == windows[link.to as usize] {
                    of_node.push(link);
                }
            });
            of_node.sort_unstable();
            of_node.dedup_by_key(|link| (link.from, link.to, link.kind));
            links.append(&mut of_node);
        }
        links.sort_unstable();
        links.dedup_by_key(|link| (link.from, link.to, link.kind));
        let starts = (0..=index.nodes.len()).map(|node| links.partition_point(|l| (l.from as usize) < node));
        Self { starts: starts.collect(), links }
    }

    fn links_of(&self, node: u32) -> &[Link] {
        &self.links[self.starts[node as usize]..self.starts[node as usize + 1]]
    }

    /// Strongly connected components of more than one node (Tarjan 1972, with its own stack), by first node;
    /// the nodes of each in order.
    fn components(&self) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = u32::MAX;
        let count = self.starts.len() - 1;
        let (mut number, mut low) = (vec![UNSEEN; count], vec![UNSEEN; count]);
        let mut open = vec![false; count];
        let (mut stack, mut visit, mut components) = (Vec::new(), Vec::new(), Vec::new());
        let mut next_number = 0;
        for root in 0..count as u32 {
            if number[root as usize] != UNSEEN {
                continue;
            }
            visit.push((root, self.starts[root as usize]));
            while let Some((node, at)) = visit.pop() {
                let n = node as usize;
                if number[n] == UNSEEN {
                    (number[n], low[n], open[n]) = (next_number, next_number, true);
                    next_number += 1;
                    stack.push(node);
                }
                if at < self.starts[n + 1] {
                    visit.push((node, at + 1));
                    let to = self.links[at].to;
                    if number[to as usize] == UNSEEN {
                        visit.push((to, self.starts[to as usize]));
                    } else if open[to as usize] {
                        low[n] = low[n].min(number[to as usize]);
                    }
                    continue;
                }
                if low[n] == number[n] {
                    let first =
                        stack.iter().rposition(|&member| member == node).expect("an open node is stacked");
                    let mut component = stack.split_off(first);
                    component.iter().for_each(|&member| open[member as usize] = false);
                    component.sort_unstable();
                    components.push(component);
                }
                if let Some(&(parent, _)) = visit.last() {
                    low[parent as usize] = low[parent as usize].min(low[n]);
                }
            }
        }
        components.retain(|component| component.len() > 1);
        components.sort_unstable();
        components
    }

    /// The shortest cycle of the weakest class in a component.
    fn weakest_cycle(&self, component: &[u32]) -> Vec<Link> {
        let classes = [Accept::Writes, Accept::WritesAndReads, Accept::OneAntiDependency, Accept::Any];
        let found = classes.iter().find_map(|&accept| self.shortest_cycle(component, accept));
        found.expect("every link of a component lies on a cycle")
    }

    /// The shortest acceptable cycle: each has a backward link, so the shortest way from the end of one to
    /// its start.
    fn shortest_cycle(&self, component: &[u32], accept: Accept) -> Option<Vec<Link>> {
        let mut search = Search::new(self, component, accept);
        let mut best: Option<Vec<Link>> = None;
        for &node in component {
            for link in self.links_of(node).iter().filter(|link| link.to < link.from) {
                let length_max = best.as_ref().map_or(usize::MAX, |cycle| cycle.len() - 1);
                if length_max < 2 || search.visits > VISITS_MAX {
                    return best;
                }
                if let Some(cycle) = search.close(*link, length_max) {
                    best = Some(cycle);
                }
            }
        }
        best
    }
}

/// Breadth-first search over (node, anti-dependencies so far).
struct Search<'g> {
    graph: &'g Graph,
    component: &'g [u32],
    accept: Accept,
    visits: usize,
    round: u32,
    /// By component member and anti-dependencies: the round of the last visit and the link that led there.
    visited: Vec<(u32, Link)>,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph, component: &'g [u32], accept: Accept) -> Self {
        let nowhere = Link { from: 0, to: 0, kind: Dependency::WriteWrite, by_range: false, entry: 0 };
        let visited = vec![(0, nowhere); component.len() * 2];
        Self { graph, component, accept, visits: 0, round: 0, visited }
    }

    fn state(&self, node: u32, anti: usize) -> Option<usize> {
        self.component.binary_search(&node).ok().map(|member| member * 2 + anti)
    }

    /// The shortest acceptable cycle through `last` of at most `length_max` links; it starts where `last`
    /// ends.
    fn close(&mut self, last: Link, length_max: usize) -> Option<Vec<Link>> {
        let anti_first = self.accept.step(0, last.kind)?;
        let goal = self.state(last.from, self.accept.wanted()).expect("a component holds its links' ends");
        let start = self.state(last.to, anti_first)?;
        self.round += 1;
        self.visited[start] = (self.round, last);
        let (mut frontier, mut next) = (vec![start], Vec::new());
        let mut length = 1;
        while !frontier.is_empty() && length < length_max {
            length += 1;
            for state in frontier.drain(..) {
                let (node, anti) = (self.component[state / 2], state % 2);
                for &link in self.graph.links_of(node) {
                    self.visits += 1;
                    let Some(to) =
                        self.accept.step(anti, link.kind).and_then(|anti| self.state(link.to, anti))
                    else {
                        continue;
                    };
                    if self.visited[to].0 == self.round {
                        continue;
                    }
                    self.visited[to] = (self.round, link);
                    if to == goal {
                        return Some(self.path(start, goal, length));
                    }
                    next.push(to);
                }
            }
            std::mem::swap(&mut frontier, &mut next);
        }
        None
    }

    /// The links from `start` to `goal`, then the link that led to `start`.
    fn path(&self, start: usize, goal: usize, length: usize) -> Vec<Link> {
        let mut links = vec![self.visited[start].1];
        let mut state = goal;
        while state != start {
            let link = self.visited[state].1;
            links.push(link);
            let anti = state % 2;
            let before = (0..=anti).find(|&a| self.accept.step(a, link.kind) == Some(anti));
            let before = before.expect("the search came this way");
            state = self.state(link.from, before).expect("the search stayed in the component");
        }
        links.reverse();
        debug_assert_eq!(links.len(), length);
        links
    }
}
