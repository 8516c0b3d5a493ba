//! Sequences of published rows, in memory that does not grow with their number while they are consecutive.

/// Rows of one block.
const ROWS: usize = 4096;

/// The sequence of each row, 0 for none, and whether it is that of a duplicate.
///
/// A block whose rows were all stored one after another becomes its first sequence: 10 million rows would take 90 MB.
#[derive(Default)]
pub struct RowSeqs {
    blocks: Vec<Block>,
    len: usize,
}

enum Block {
    /// Rows without a sequence, as mode fast reports most rows.
    Unknown,
    /// First sequence of rows with consecutive sequences, none of them a duplicate.
    Run(i64),
    Rows(Box<Rows>),
}

struct Rows {
    seqs: [i64; ROWS],
    duplicate: [bool; ROWS],
    /// Rows with a sequence.
    known: usize,
}

impl Rows {
    fn boxed() -> Box<Self> {
        Box::new(Rows { seqs: [0; ROWS], duplicate: [false; ROWS], known: 0 })
    }

    /// The rows of a run.
    fn of_run(first: i64) -> Box<Self> {
        let mut rows = Self::boxed();
        rows.seqs.iter_mut().zip(first..).for_each(|(seq, value)| *seq = value);
        rows.known = ROWS;
        rows
    }

    fn run(&self) -> Option<i64> {
        let first = self.seqs[0];
        let consecutive = self.known == ROWS && self.seqs.iter().zip(first..).all(|(seq, value)| *seq == value);
        (consecutive && !self.duplicate.contains(&true)).then_some(first)
    }
}

impl RowSeqs {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the rows up to this one, without a sequence.
    pub fn reserve(&mut self, row: usize) {
        self.len = self.len.max(row + 1);
        while self.blocks.len() <= row / ROWS {
            self.blocks.push(Block::Unknown);
        }
    }

    /// Sets the sequence of a row, and whether it is a duplicate.
    pub fn set(&mut self, row: usize, seq: i64, duplicate: bool) {
        self.reserve(row);
        let (block, at) = (&mut self.blocks[row / ROWS], row % ROWS);
        match block {
            Block::Unknown if seq == 0 && !duplicate => return,
            Block::Run(first) if *first + at as i64 == seq && !duplicate => return,
            Block::Unknown => *block = Block::Rows(Rows::boxed()),
            Block::Run(first) => *block = Block::Rows(Rows::of_run(*first)),
            Block::Rows(_) => {}
        }
        let Block::Rows(rows) = block else { return };
        rows.known = rows.known + usize::from(seq != 0) - usize::from(rows.seqs[at] != 0);
        rows.seqs[at] = seq;
        rows.duplicate[at] = duplicate;
        if rows.known == ROWS
            && let Some(first) = rows.run()
        {
            *block = Block::Run(first);
        }
    }

    pub fn is_duplicate(&self, row: usize) -> bool {
        match self.blocks.get(row / ROWS) {
            Some(Block::Rows(rows)) => rows.duplicate[row % ROWS],
            Some(Block::Run(_) | Block::Unknown) | None => false,
        }
    }

    /// The sequence of each row, 0 for none.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        (0..self.len).map(|row| match &self.blocks[row / ROWS] {
            Block::Unknown => 0,
            Block::Run(first) => first + (row % ROWS) as i64,
            Block::Rows(rows) => rows.seqs[row % ROWS],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn blocks_with_rows(seqs: &RowSeqs) -> usize {
        seqs.blocks.iter().filter(|block| matches!(block, Block::Rows(_))).count()
    }

    #[test]
    fn consecutive_sequences_take_no_memory_per_row() {
        let mut seqs = RowSeqs::default();
        let rows = 10 * ROWS + 7;
        // In reverse, because acks of one block can come in any order.
        for row in (0..rows).rev() {
            seqs.set(row, 100 + row as i64, false);
        }
        assert_eq!(blocks_with_rows(&seqs), 1);
        assert!(seqs.iter().eq(100..100 + rows as i64));
        // A run that is changed is one no longer.
        seqs.set(5, 7, true);
        assert_eq!((blocks_with_rows(&seqs), seqs.iter().nth(5), seqs.is_duplicate(5)), (2, Some(7), true));
    }

    #[test]
    fn is_a_map_of_rows() {
        let mut state = 7_u64;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        for turn in 0..200 {
            let (mut seqs, mut model) = (RowSeqs::default(), BTreeMap::new());
            let run: Vec<_> = (0..(turn % 3) * ROWS / 2 + 3).map(|row| (row, 2 + row as i64, false)).collect();
            let changes: Vec<_> =
                (0..turn % 40).map(|_| (below(2 * ROWS + 9), below(9) as i64, below(2) == 0)).collect();
            for (row, seq, duplicate) in run.into_iter().chain(changes) {
                seqs.set(row, seq, duplicate);
                model.insert(row, (seq, duplicate));
            }
            assert_eq!(seqs.len(), model.keys().max().copied().unwrap_or_default() + 1);
            for (row, seq) in seqs.iter().enumerate() {
                assert_eq!((seq, seqs.is_duplicate(row)), model.get(&row).copied().unwrap_or_default(), "row {row}");
            }
        }
    }
}
