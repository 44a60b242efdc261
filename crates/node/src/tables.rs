//! Which page map each branch's tables have.
//!
//! The root branch and frozen forks own a *real* page map, changed only by applying records.
//! A live fork owns none: its view is its parent's newest map with its own changes on top, and is
//! computed when somebody reads (see `live`). A frozen fork of a live fork starts from such a
//! view: until its first commit it is a map plus layers of changes, too.
//!
//! Everything here follows from applied operations alone; it is encoded into checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_log::{BranchId, Index, TableVersion};
use anabranch_sql::PageMap;

/// One own change of a fork's tables: where its row images are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Commit {
    /// The operation in the history.
    pub(crate) index: Index,
    /// Chunks that hold the row images if they are too large to stand in the history.
    pub(crate) chunks: Vec<[u8; 32]>,
}

/// Tables as they can be computed: a real page map and the changes to put on top of it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The real page map.
    pub(crate) root: PageMap,
    /// The branch whose map that is, and its version.
    pub(crate) origin: (BranchId, TableVersion),
    /// Commits of live forks to put on top, outermost ancestor first.
    pub(crate) layers: Vec<Vec<Commit>>,
}

impl Source {
    /// Equal keys mean equal tables.
    pub(crate) fn key(&self) -> SourceKey {
        let indexes = |layer: &Vec<Commit>| layer.iter().map(|commit| commit.index).collect();
        SourceKey { origin: self.origin, layers: self.layers.iter().map(indexes).collect() }
    }
}

/// Names the content of a [`Source`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceKey {
    origin: (BranchId, TableVersion),
    layers: Vec<Vec<Index>>,
}

/// Tables of one branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct BranchTables {
    /// The branch it was forked from; `None` for the root.
    pub(crate) parent: Option<BranchId>,
    /// Whether it follows its parent.
    pub(crate) live: bool,
    /// What a frozen fork was cut from; of a live fork, its parent's tables when the parent closed.
    pub(crate) source: Option<Box<Source>>,
    /// The real page map, once there is one. Never set on a live fork.
    pub(crate) head: Option<PageMap>,
    /// Retained own versions, the newest is `head`.
    pub(crate) roots: BTreeMap<TableVersion, PageMap>,
    /// Its own changes, in order (not kept for the root).
    pub(crate) commits: Vec<Commit>,
    /// Per table, the version that last changed it; `""` stands for the schema.
    pub(crate) changed: BTreeMap<String, TableVersion>,
}

/// A retained version has no page map: the state and the maps have drifted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MissingRoot;

/// Tables of all branches that anybody can still read.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    branches: BTreeMap<BranchId, BranchTables>,
    /// Live forks that follow a branch: (parent, child), so that closing one costs its own forks.
    following: BTreeSet<(BranchId, BranchId)>,
}

impl Tables {
    /// A space with an empty root branch.
    pub(crate) fn new() -> Tables {
        let main = BranchTables {
            head: Some(PageMap::default()),
            roots: BTreeMap::from([(TableVersion::default(), PageMap::default())]),
            ..BranchTables::default()
        };
        Tables::from_parts(BTreeMap::from([(BranchId::MAIN, main)]))
    }

    pub(crate) fn from_parts(branches: BTreeMap<BranchId, BranchTables>) -> Tables {
        let follows = |(id, tables): (&BranchId, &BranchTables)| {
            let parent = tables.parent.filter(|_| tables.live && tables.source.is_none())?;
            Some((parent, *id))
        };
        let following = branches.iter().filter_map(follows).collect();
        Tables { branches, following }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&BranchId, &BranchTables)> {
        self.branches.iter()
    }

    pub(crate) fn get(&self, branch: BranchId) -> Option<&BranchTables> {
        self.branches.get(&branch)
    }

    fn expect(&mut self, branch: BranchId) -> &mut BranchTables {
        self.branches.get_mut(&branch).expect("every readable branch has its tables")
    }

    /// The branch's tables as it sees them now, at the given version of its own.
    ///
    /// `versions` tells the current own table version of a branch.
    pub(crate) fn view(
        &self,
        branch: BranchId,
        versions: &dyn Fn(BranchId) -> TableVersion,
    ) -> Option<Source> {
        let tables = self.branches.get(&branch)?;
        if let Some(head) = &tables.head {
            return Some(Source {
                root: head.clone(),
                origin: (branch, versions(branch)),
                layers: Vec::new(),
            });
        }
        let mut source = match (&tables.source, tables.parent) {
            (Some(source), _) => (**source).clone(),
            (None, Some(parent)) => self.view(parent, versions)?,
            (None, None) => return None,
        };
        if tables.live && !tables.commits.is_empty() {
            source.layers.push(tables.commits.clone());
        }
        Some(source)
    }

    /// A live fork was made.
    pub(crate) fn forked_live(&mut self, child: BranchId, parent: BranchId) {
        let tables = BranchTables { parent: Some(parent), live: true, ..BranchTables::default() };
        self.following.insert((parent, child));
        self.insert(child, tables);
    }

    /// A frozen fork was made of the tables that `sources` name: a branch with a real map and its
    /// version, then each live fork on the way down with the newest of its versions to include.
    pub(crate) fn forked_frozen(
        &mut self,
        child: BranchId,
        parent: BranchId,
        sources: &[(BranchId, TableVersion)],
    ) -> Result<(), MissingRoot> {
        let (&origin, live) = sources.split_first().ok_or(MissingRoot)?;
        let mut source = self.at_version(origin)?;
        for (fork, version) in live {
            let commits = &self.branches.get(fork).ok_or(MissingRoot)?.commits;
            let layer: Vec<Commit> =
                commits.iter().take_while(|commit| commit.index <= version.0).cloned().collect();
            if !layer.is_empty() {
                source.layers.push(layer);
            }
        }
        let tables = BranchTables {
            parent: Some(parent),
            source: Some(Box::new(source)),
            ..BranchTables::default()
        };
        self.insert(child, tables);
        Ok(())
    }

    fn at_version(&self, origin: (BranchId, TableVersion)) -> Result<Source, MissingRoot> {
        let (branch, version) = origin;
        let tables = self.branches.get(&branch).ok_or(MissingRoot)?;
        match (tables.roots.get(&version), &tables.source) {
            (Some(root), _) => Ok(Source { root: root.clone(), origin, layers: Vec::new() }),
            (None, Some(source)) if !tables.live => Ok((**source).clone()),
            _ => Err(MissingRoot),
        }
    }

    fn insert(&mut self, child: BranchId, tables: BranchTables) {
        let previous = self.branches.insert(child, tables);
        assert!(previous.is_none(), "branch numbers are never reused");
    }

    /// The map that the pages of a commit on this branch are laid over.
    pub(crate) fn install_base(&self, branch: BranchId) -> PageMap {
        let tables = self.branches.get(&branch).expect("a branch that commits has tables");
        match (&tables.head, &tables.source) {
            (Some(head), _) => head.clone(),
            (None, Some(source)) => source.root.clone(),
            (None, None) => PageMap::default(),
        }
    }

    /// The branch's tables changed at `version`; `head` is the new map (`None` on a live fork).
    pub(crate) fn committed(
        &mut self,
        branch: BranchId,
        version: TableVersion,
        head: Option<PageMap>,
        commits: impl IntoIterator<Item = Commit>,
        changed: impl IntoIterator<Item = String>,
    ) {
        let tables = self.expect(branch);
        assert_eq!(tables.live, head.is_none(), "live forks own no map, all others do");
        if let Some(head) = head {
            tables.roots.insert(version, head.clone());
            tables.head = Some(head);
        }
        if tables.parent.is_some() {
            tables.commits.extend(commits);
        }
        for table in changed {
            tables.changed.insert(table, version);
        }
    }

    /// A version can no longer be forked.
    pub(crate) fn released(&mut self, branch: BranchId, version: TableVersion) {
        if let Some(tables) = self.branches.get_mut(&branch) {
            tables.roots.remove(&version);
        }
    }

    /// The branch closed: its live children keep its tables as they were just before, which is
    /// `before`.
    pub(crate) fn closed(&mut self, branch: BranchId, before: &Source) {
        let forks = (branch, BranchId(0))..=(branch, BranchId(u64::MAX));
        let children: Vec<_> = self.following.range(forks).copied().collect();
        for (parent, child) in children {
            self.following.remove(&(parent, child));
            self.expect(child).source = Some(Box::new(before.clone()));
        }
    }

    /// Nobody can read the branch any more.
    pub(crate) fn retired(&mut self, branch: BranchId) {
        let tables = self.branches.remove(&branch);
        if let Some(parent) = tables.and_then(|tables| tables.parent) {
            self.following.remove(&(parent, branch));
        }
    }
}
