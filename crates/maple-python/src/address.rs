//! MAC addresses, IP addresses and prefixes as light Python objects.
//!
//! They equal their text in any spelling, and hash as their canonical text, so that dictionaries and sets can hold
//! either: `{"00:00:00:00:00:01": …}[pkt.eth_src]` works. One object is kept per address, with its hash, so that
//! reading a field formats its text only when the address is seen for the first time.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{LazyLock, OnceLock};

use maple_wire::packet::text::parse_mac;
use parking_lot::{Mutex, MutexGuard};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyTuple};

use crate::error_text::described;

/// The functions that let a packet's field take the place of an address. Fields lie above addresses, so these functions
/// are given at the start. Each returns `None` for an object that is not a field.
pub struct FieldFunctions {
    /// Reads the field.
    pub value: for<'py> fn(&Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>>,
    /// Tests whether the field lies under the prefix.
    pub is_under: fn(&Bound<'_, PyAny>, &Prefix) -> PyResult<Option<bool>>,
}

static FIELDS: OnceLock<FieldFunctions> = OnceLock::new();

/// Sets the functions that treat fields as addresses. Only the first call has an effect.
pub fn accept_fields(functions: FieldFunctions) {
    FIELDS.get_or_init(|| functions);
}

/// Reads `object` if it is a field of a packet, and returns its value; returns any other object unchanged.
fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let value = FIELDS.get().map_or(Ok(None), |fields| (fields.value)(object))?;
    Ok(value.unwrap_or_else(|| object.clone()))
}

/// The maximum number of cached addresses of each kind, a power of two for [`place`]. Beyond it the cache of IP
/// addresses is cleared. Chosen: those of a large network that send at a time, and a bound on memory.
const CACHED: usize = 1 << 14;

/// The cache of MAC addresses. Each address has one place, so a network with more addresses than places never empties
/// the cache.
static MACS: LazyLock<Mutex<Vec<Option<Py<Mac>>>>> = LazyLock::new(|| Mutex::new((0..CACHED).map(|_| None).collect()));
static IPS: Cache<IpAddr, Ip> = Cache::new();

/// An Ethernet address, in the low 48 bits, and its hash.
#[pyclass(frozen, module = "maple")]
pub struct Mac(pub u64, isize);

/// An IPv4 or IPv6 address, and its hash.
#[pyclass(frozen, module = "maple")]
pub struct Ip(pub IpAddr, isize);

/// An address under a mask of leading bits.
#[pyclass(frozen, module = "maple")]
pub struct Prefix {
    /// The kind of its addresses.
    pub family: Family,
    /// The bits. Those after the prefix are zero.
    pub value: u128,
    /// The length in bits.
    pub length: u32,
    hash: isize,
}

/// The kinds of addresses that have prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// 48 bits.
    Mac,
    /// 32 bits.
    Ipv4,
    /// 128 bits.
    Ipv6,
}

impl Family {
    /// Returns the width of an address in bits.
    pub const fn bits(self) -> u32 {
        match self {
            Family::Mac => 48,
            Family::Ipv4 => 32,
            Family::Ipv6 => 128,
        }
    }
}

/// A cache of one Python object for each key. Its lock is never held while Python code can run.
struct Cache<K, T>(LazyLock<Mutex<HashMap<K, Py<T>>>>);

impl<K: Eq + Hash + 'static, T: 'static> Cache<K, T> {
    const fn new() -> Cache<K, T> {
        Cache(LazyLock::new(Default::default))
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<K, Py<T>>> {
        self.0.lock()
    }

    fn get<'py>(&self, py: Python<'py>, key: &K) -> Option<Bound<'py, T>> {
        self.objects().get(key).map(|object| object.bind(py).clone())
    }

    fn put(&self, key: K, object: &Bound<'_, T>) {
        let object = object.clone().unbind();
        let dropped = {
            let mut objects = self.objects();
            let dropped = if objects.len() >= CACHED { std::mem::take(&mut *objects) } else { HashMap::new() };
            objects.insert(key, object);
            dropped
        };
        drop(dropped);
    }
}

/// Returns the hash that Python gives this text.
fn text_hash(py: Python<'_>, text: &str) -> PyResult<isize> {
    PyString::new(py, text).hash()
}

fn mac_text(value: u64) -> String {
    /// The digits of a hexadecimal number.
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(17);
    for (n, byte) in value.to_be_bytes()[2..].iter().enumerate() {
        if n > 0 {
            text.push(':');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Returns the place of an address in the cache.
fn place(value: u64) -> usize {
    // Fibonacci hashing: consecutive addresses are spread over all places.
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - CACHED.ilog2())) as usize
}

impl Mac {
    /// Returns the one object for this address.
    ///
    /// # Errors
    /// The error of Python if it can't make the object.
    pub fn cached(py: Python<'_>, value: u64) -> PyResult<Bound<'_, Mac>> {
        let macs = || MACS.lock();
        if let Some(mac) = &macs()[place(value)]
            && mac.get().0 == value
        {
            return Ok(mac.bind(py).clone());
        }
        let mac = Bound::new(py, Mac(value, text_hash(py, &mac_text(value))?))?;
        let replaced = macs()[place(value)].replace(mac.clone().unbind());
        // Dropped outside the lock, because it can be the last reference to the object.
        drop(replaced);
        Ok(mac)
    }

    /// Returns the address of `object`: a [`Mac`], its text, or a number.
    ///
    /// # Errors
    /// `ValueError` for a text or a number that is not a MAC address, `TypeError` for any other object.
    pub fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Mac> {
        let value = if let Ok(mac) = object.cast::<Mac>() {
            return Ok(Mac(mac.get().0, mac.get().1));
        } else if let Ok(text) = object.cast::<PyString>() {
            let text = text.to_cow()?;
            parse_mac(&text).ok_or_else(|| {
                PyValueError::new_err(format!("{text:?} is not a MAC address such as 00:11:22:33:44:55"))
            })?
        } else if let Ok(number) = object.cast::<PyInt>() {
            number.extract().ok().filter(|n: &u64| n >> 48 == 0).ok_or_else(|| {
                PyValueError::new_err(format!("{number} is not a MAC address: these are 0 to 2**48 - 1"))
            })?
        } else {
            return Err(PyTypeError::new_err(format!("a MAC address is a str, not {}", described(object))));
        };
        Ok(Mac(value, text_hash(object.py(), &mac_text(value))?))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mac_text(self.0))
    }
}

#[pymethods]
impl Mac {
    #[new]
    fn new(address: &Bound<'_, PyAny>) -> PyResult<Mac> {
        Mac::from_object(&plain(address)?)
    }

    /// Reports whether the group bit is set, as in multicast and broadcast addresses.
    #[getter]
    fn is_multicast(&self) -> bool {
        self.0 >> 40 & 1 == 1
    }

    /// Reports whether bridges never forward packets for this address.
    #[getter]
    fn is_reserved(&self) -> bool {
        maple_core::Mac::from_bits(self.0.into()).is_reserved()
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        // A field of a packet compares itself, by a test. An error that describes it would read it.
        if !(other.is_instance_of::<Mac>() || other.is_instance_of::<PyString>()) {
            return Ok(py.NotImplemented());
        }
        equality(py, Mac::from_object(other).is_ok_and(|mac| mac.0 == self.0), op)
    }

    fn __hash__(&self) -> isize {
        self.1
    }

    fn __int__(&self) -> u64 {
        self.0
    }

    fn __str__(&self) -> String {
        self.to_string()
    }

    fn __format__(&self, py: Python<'_>, format_spec: &str) -> PyResult<Py<PyAny>> {
        formatted(py, &self.to_string(), format_spec)
    }

    fn __repr__(&self) -> String {
        format!("Mac('{self}')")
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        (slf.get_type(), (slf.get().to_string(),)).into_pyobject(slf.py())
    }
}

impl Ip {
    /// Returns an IPv4 address; [`Ip::cached`] computes the hash.
    pub fn v4(value: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(value))
    }

    /// Returns an IPv6 address.
    pub fn v6(value: u128) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(value))
    }

    /// Returns the one object for this address.
    ///
    /// # Errors
    /// The error of Python if it can't make the object.
    pub fn cached(py: Python<'_>, address: IpAddr) -> PyResult<Bound<'_, Ip>> {
        if let Some(ip) = IPS.get(py, &address) {
            return Ok(ip);
        }
        let ip = Bound::new(py, Ip(address, text_hash(py, &address.to_string())?))?;
        IPS.put(address, &ip);
        Ok(ip)
    }

    /// Returns the address of `object`: an [`Ip`], its text, or an object of `ipaddress`.
    ///
    /// # Errors
    /// `ValueError` for a text that is not an IP address, `TypeError` for any other object.
    pub fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Ip> {
        let py = object.py();
        let address = if let Ok(ip) = object.cast::<Ip>() {
            return Ok(Ip(ip.get().0, ip.get().1));
        } else if let Ok(text) = object.cast::<PyString>() {
            let text = text.to_cow()?;
            text.parse().map_err(|_| {
                PyValueError::new_err(format!("{text:?} is not an IP address such as 10.0.0.1 or fe80::1"))
            })?
        } else if object.hasattr("packed")? && object.hasattr("is_multicast")? {
            object.extract::<IpAddr>()?
        } else {
            return Err(PyTypeError::new_err(format!(
                "an IP address is a str or an ipaddress object, not {}",
                described(object)
            )));
        };
        Ok(Ip(address, text_hash(py, &address.to_string())?))
    }

    /// Reports whether the address is an IPv4 address.
    pub fn is_v4(&self) -> bool {
        self.0.is_ipv4()
    }

    /// Returns the address as a number.
    pub fn number(&self) -> u128 {
        match self.0 {
            IpAddr::V4(ip) => u128::from(u32::from(ip)),
            IpAddr::V6(ip) => u128::from(ip),
        }
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[pymethods]
impl Ip {
    #[new]
    fn new(address: &Bound<'_, PyAny>) -> PyResult<Ip> {
        Ip::from_object(&plain(address)?)
    }

    /// Returns the IP version of the address, 4 or 6.
    #[getter]
    fn version(&self) -> u8 {
        if self.is_v4() { 4 } else { 6 }
    }

    /// Reports whether the address is a group address.
    #[getter]
    fn is_multicast(&self) -> bool {
        self.0.is_multicast()
    }

    /// Returns the bytes of the address, in network order.
    #[getter]
    fn packed(&self) -> Vec<u8> {
        match self.0 {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        }
    }

    /// Returns the first `length` bits.
    fn prefix(&self, py: Python<'_>, length: u32) -> PyResult<Prefix> {
        let family = if self.is_v4() { Family::Ipv4 } else { Family::Ipv6 };
        Prefix::from_value(py, family, self.number(), length)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        // Fields compare themselves, as with MAC addresses.
        if !(other.is_instance_of::<Ip>() || other.is_instance_of::<PyString>() || other.hasattr("packed")?) {
            return Ok(py.NotImplemented());
        }
        let order = match Ip::from_object(other) {
            Ok(ip) => (self.version(), self.number()).cmp(&(ip.version(), ip.number())),
            Err(_) if other.is_instance_of::<PyString>() => return equality(py, false, op),
            Err(_) => return Ok(py.NotImplemented()),
        };
        Ok(op.matches(order).into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self) -> isize {
        self.1
    }

    fn __int__(&self) -> u128 {
        self.number()
    }

    fn __str__(&self) -> String {
        self.to_string()
    }

    fn __format__(&self, py: Python<'_>, format_spec: &str) -> PyResult<Py<PyAny>> {
        formatted(py, &self.to_string(), format_spec)
    }

    fn __repr__(&self) -> String {
        format!("Ip('{self}')")
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        (slf.get_type(), (slf.get().to_string(),)).into_pyobject(slf.py())
    }
}

impl Prefix {
    /// Creates the prefix of the first `length` bits of `value`.
    ///
    /// # Errors
    /// `ValueError` if addresses of this family have fewer bits.
    pub fn from_value(py: Python<'_>, family: Family, value: u128, length: u32) -> PyResult<Prefix> {
        let bits = family.bits();
        if length > bits {
            return Err(PyValueError::new_err(format!(
                "a prefix of such an address has 0 to {bits} bits, not {length}"
            )));
        }
        let value = value & leading(bits, length);
        let hash = text_hash(py, &prefix_text(family, value, length))?;
        Ok(Prefix { family, value, length, hash })
    }

    /// Returns the mask that selects the bits of the prefix.
    pub fn mask(&self) -> u128 {
        leading(self.family.bits(), self.length)
    }

    /// Returns the prefix of `object`: a [`Prefix`], its text, or a network of `ipaddress`.
    ///
    /// # Errors
    /// `ValueError` for a text that is not a prefix, `TypeError` for any other object.
    pub fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Prefix> {
        if let Ok(prefix) = object.cast::<Prefix>() {
            let p = prefix.get();
            return Ok(Prefix { family: p.family, value: p.value, length: p.length, hash: p.hash });
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Prefix::parse(object.py(), &text.to_cow()?);
        }
        if object.hasattr("network_address")? && object.hasattr("prefixlen")? {
            return Prefix::parse(object.py(), &object.str()?.to_cow()?);
        }
        Err(PyTypeError::new_err(format!("a prefix is a str such as \"10.0.0.0/8\", not {}", described(object))))
    }

    fn parse(py: Python<'_>, text: &str) -> PyResult<Prefix> {
        let bad = || {
            PyValueError::new_err(format!(
                "{text:?} is not a prefix such as 10.0.0.0/8, fe80::/10 or 01:00:5e:00:00:00/25"
            ))
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().map_err(|_| bad())?)),
            None => (text, None),
        };
        let (family, value) = match address.parse() {
            Ok(IpAddr::V4(ip)) => (Family::Ipv4, u128::from(u32::from(ip))),
            Ok(IpAddr::V6(ip)) => (Family::Ipv6, u128::from(ip)),
            Err(_) => (Family::Mac, u128::from(parse_mac(address).ok_or_else(bad)?)),
        };
        let prefix = Prefix::from_value(py, family, value, length.unwrap_or(family.bits()))?;
        if prefix.value != value {
            return Err(PyValueError::new_err(format!(
                "{text:?} has bits set after its prefix; did you mean {prefix}?"
            )));
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&prefix_text(self.family, self.value, self.length))
    }
}

fn leading(bits: u32, length: u32) -> u128 {
    let all = u128::MAX >> (128 - bits);
    if length == 0 { 0 } else { all & !(all.checked_shr(length).unwrap_or(0)) }
}

fn prefix_text(family: Family, value: u128, length: u32) -> String {
    match family {
        Family::Mac => format!("{}/{length}", mac_text(value as u64)),
        Family::Ipv4 => format!("{}/{length}", Ipv4Addr::from(value as u32)),
        Family::Ipv6 => format!("{}/{length}", Ipv6Addr::from(value)),
    }
}

#[pymethods]
impl Prefix {
    #[new]
    fn new(prefix: &Bound<'_, PyAny>) -> PyResult<Prefix> {
        Prefix::from_object(prefix)
    }

    /// Returns the number of leading bits of the prefix.
    #[getter]
    fn length(&self) -> u32 {
        self.length
    }

    fn __contains__(&self, address: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Some(fields) = FIELDS.get()
            && let Some(answer) = (fields.is_under)(address, self)?
        {
            return Ok(answer);
        }
        let (family, value) = match self.family {
            Family::Mac => (Family::Mac, u128::from(Mac::from_object(address)?.0)),
            _ => {
                let ip = Ip::from_object(address)?;
                (if ip.is_v4() { Family::Ipv4 } else { Family::Ipv6 }, ip.number())
            }
        };
        Ok(family == self.family && value & self.mask() == self.value)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let equal = match Prefix::from_object(other) {
            Ok(p) => (p.family, p.value, p.length) == (self.family, self.value, self.length),
            Err(_) if other.is_instance_of::<PyString>() => false,
            Err(_) => return Ok(py.NotImplemented()),
        };
        equality(py, equal, op)
    }

    fn __hash__(&self) -> isize {
        self.hash
    }

    fn __str__(&self) -> String {
        self.to_string()
    }

    fn __format__(&self, py: Python<'_>, format_spec: &str) -> PyResult<Py<PyAny>> {
        formatted(py, &self.to_string(), format_spec)
    }

    fn __repr__(&self) -> String {
        format!("Prefix('{self}')")
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        (slf.get_type(), (slf.get().to_string(),)).into_pyobject(slf.py())
    }
}

/// Returns the answer of `==` or `!=`, or `NotImplemented` for other comparisons.
///
/// # Errors
/// The error of Python if it can't make the object.
pub fn equality(py: Python<'_>, equal: bool, op: CompareOp) -> PyResult<Py<PyAny>> {
    let answer = match op {
        CompareOp::Eq => equal,
        CompareOp::Ne => !equal,
        _ => return Ok(py.NotImplemented()),
    };
    Ok(answer.into_pyobject(py)?.to_owned().into_any().unbind())
}

fn formatted(py: Python<'_>, text: &str, spec: &str) -> PyResult<Py<PyAny>> {
    Ok(PyString::new(py, text).call_method1("__format__", (spec,))?.unbind())
}
