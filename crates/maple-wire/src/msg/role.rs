//! Role request and reply (1.3 §7.3.9): which of several controllers may change a switch.

use super::bytes::{Put, exactly, u32_at, u64_at};
use crate::error::Result;

mod offset {
    pub const ROLE: usize = 8;
    pub const GENERATION_ID: usize = 16;
    pub const END: usize = 24;
}

/// A role that a controller asks for or has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// `OFPCR_ROLE_*`: [`Role::NOCHANGE`], [`Role::EQUAL`], [`Role::MASTER`] or [`Role::SLAVE`].
    pub role: u32,
    /// The number of changes of master. A switch refuses a value that is older than one that it saw.
    pub generation_id: u64,
}

/// A view of a role request or reply.
#[derive(Clone, Copy, Debug)]
pub struct RoleView<'a> {
    bytes: &'a [u8],
}

impl<'a> RoleView<'a> {
    /// Creates a view of the message that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) or [`Error::BadLength`](crate::Error::BadLength) if `bytes` has
    /// another length.
    pub fn new_checked(bytes: &'a [u8]) -> Result<RoleView<'a>> {
        exactly("role", bytes, offset::END)?;
        Ok(RoleView { bytes })
    }

    /// Returns the role, `OFPCR_ROLE_*`.
    pub fn role(&self) -> u32 {
        u32_at(self.bytes, offset::ROLE)
    }

    /// Returns the number of changes of master.
    pub fn generation_id(&self) -> u64 {
        u64_at(self.bytes, offset::GENERATION_ID)
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

    /// Reads the owned form.
    pub fn parse(view: &RoleView<'_>) -> Role {
        Role { role: view.role(), generation_id: view.generation_id() }
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// None; the result is for uniformity with other messages.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.role);
        out.put_zeros(4);
        out.put_u64(self.generation_id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_truncated, check_unsupported};
    use crate::msg::{Message, Version};

    #[test]
    fn a_controller_asks_to_be_master() {
        let role = Role { role: Role::MASTER, generation_id: 0x1122334455667788 };
        check(Version::Of13, "04 18 0018 00000001 00000002 00000000 1122334455667788", Message::RoleRequest(role));
        check(Version::Of13, "04 19 0018 00000001 00000002 00000000 1122334455667788", Message::RoleReply(role));
        check_truncated("04 18 0018 00000001 00000002 00000000 1122334455667788");
        check_unsupported(Version::Of10, Message::RoleRequest(role));
    }
}
