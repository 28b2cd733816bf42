//! Explanations of packets in networks of a few switches.
