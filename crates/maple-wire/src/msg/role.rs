//! Role request and reply (1.3 §7.3.9): which of several controllers may change a switch.

use super::wire::{Padded, layout};

layout! {
    /// A role that a controller asks for or has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Role {
        /// `OFPCR_ROLE_*`: [`Role::NOCHANGE`], [`Role::EQUAL`], [`Role::MASTER`] or [`Role::SLAVE`].
        pub role: u32 as Padded<4>,
        /// The number of changes of master. A switch refuses a value that is older than one that it saw.
        pub generation_id: u64,
    }
}

impl Role {
    /// Asks for the role without changing it.
    pub const NOCHANGE: u32 = 0;
    /// Full access, like every other controller of this role.
    pub const EQUAL: u32 = 1;
    /// Full access. Then no other controller is master.
    pub const MASTER: u32 = 2;
    /// Read access only.
    pub const SLAVE: u32 = 3;

    /// The type of the ONF's message in 1.3 that a controller's role has changed (extension 191).
    pub const ONF_STATUS: u32 = 1911;
    /// The type of Nicira's request for a role in 1.0, `NXT_ROLE_REQUEST`.
    pub const NICIRA_REQUEST: u32 = 10;
    /// The type of Nicira's reply, `NXT_ROLE_REPLY`.
    pub const NICIRA_REPLY: u32 = 11;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_unsupported};
    use crate::msg::{Message, Version};

    #[test]
    fn a_controller_asks_to_be_master() {
        let role = Role { role: Role::MASTER, generation_id: 0x1122334455667788 };
        check(Version::Of13, "04 18 0018 00000001 00000002 00000000 1122334455667788", Message::RoleRequest(role));
        check(Version::Of13, "04 19 0018 00000001 00000002 00000000 1122334455667788", Message::RoleReply(role));
        check_unsupported(Version::Of10, Message::RoleRequest(role));
    }
}
