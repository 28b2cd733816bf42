//! Tables, variables and queries read and write through the network.

use maple_core::state::{Access, Cell, CellValue, Read, Savepoint, Write};

use super::Net;

impl Read for Net {
    #[track_caller]
    fn cell(&self, cell: Cell) -> CellValue {
        self.0.cell(cell)
    }
}

impl Access for Net {
    #[track_caller]
    fn put(&self, write: Write) {
        self.0.put(write);
    }

    #[track_caller]
    fn savepoint(&self) -> Savepoint {
        self.0.savepoint()
    }

    #[track_caller]
    fn roll_back(&self, to: Savepoint) {
        self.0.roll_back(to);
    }
}
