//! The page of the command line is the one that the program gives.

use std::path::Path;

#[test]
fn the_page_of_the_command_line_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command-line.md");
    let made = maple_cli::reference::markdown();
    if std::env::var_os("MAPLE_BLESS").is_some() {
        std::fs::create_dir_all(page.parent().expect("it is in a folder")).expect("the folder can be made");
        std::fs::write(&page, made).expect("the page can be written");
        return;
    }
    let there = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(there == made, "{} is not current: run this test again with MAPLE_BLESS=1", page.display());
}
