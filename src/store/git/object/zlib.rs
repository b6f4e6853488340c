//! The zlib streams that hold objects (RFC 1950, RFC 1951).
//!
//! A client waits while a group's pack is written, so its objects are stored and not deflated. Storing a small
//! object takes a hundredth of the time, because a compressor spends most of its time on clearing its tables. The
//! objects are deflated when packs are merged. What deflate can't make shorter, such as the delta of a tree, is
//! marked as tried, so that the next merge does not try it again:
//!
//! ```text
//! 78 01  00|01 · length · ~length · bytes  …  Adler-32      stored, not tried yet ("fastest")
//! 78 9c  00|01 · length · ~length · bytes  …  Adler-32      stored because that is shorter ("default")
//! ```

use std::io::{self, Read as _};

use flate2::bufread::ZlibDecoder;
use flate2::{Compress, Compression, FlushCompress};

/// The zlib headers: compression method 8, a window of 32 KiB, and a level hint with check bits that make the
/// header a multiple of 31.
const FASTEST: [u8; 2] = [0x78, 0x01];
const DEFAULT: [u8; 2] = [0x78, 0x9c];

/// Content up to this length is not deflated: it is a delta or a small tree, and mostly random.
const TINY_LEN_MAX: usize = 64;

const BLOCK_LEN_MAX: usize = 0xffff;

/// The bytes of a stored stream of one block besides its content: a header, the block's header and a checksum.
const STORED_EXTRA_LEN: usize = 2 + 5 + 4;

/// From this length on, content is deflated at the fast level: it is mostly the trees of large folders, nearly half
/// of which is random.
const LARGE_LEN_MIN: usize = 16 << 10;

/// Appends content without compressing it.
pub(crate) fn store(out: &mut Vec<u8>, content: &[u8]) {
    store_under(FASTEST, out, content);
}

fn store_under(header: [u8; 2], out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(&header);
    let count = content.len().div_ceil(BLOCK_LEN_MAX).max(1);
    for index in 0..count {
        let start = index * BLOCK_LEN_MAX;
        let block = &content[start..content.len().min(start + BLOCK_LEN_MAX)];
        let len = u16::try_from(block.len()).expect("cut to that length");
        out.push(u8::from(index + 1 == count));
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&adler32(content).to_be_bytes());
}

/// Reports whether a stream was stored without an attempt to deflate it.
pub(crate) fn is_untried(stream: &[u8]) -> bool {
    stream.starts_with(&FASTEST) && stream.get(2).is_some_and(|block| block & 0b110 == 0)
}

/// Inflates a stream whose content has `len` bytes.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] for any other stream.
pub(crate) fn inflated(stream: &[u8], len: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = ZlibDecoder::new(stream).take(len.saturating_add(1)).read_to_end(&mut content);
    if read.is_ok_and(|read| read as u64 == len) {
        Ok(content)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "a stream is not what it says"))
    }
}

/// A compressor that is reused from one content to the next.
pub(crate) struct Deflater {
    small: Compress,
    large: Compress,
}

impl Default for Deflater {
    fn default() -> Self {
        let [small, large] =
            [Compression::default(), Compression::fast()].map(|level| Compress::new(level, true));
        Self { small, large }
    }
}

impl Deflater {
    /// Appends the deflated content, or stores it if that is shorter.
    pub(crate) fn deflate(&mut self, out: &mut Vec<u8>, content: &[u8]) {
        if content.len() <= TINY_LEN_MAX {
            return store_under(DEFAULT, out, content);
        }
        let compress = if content.len() < LARGE_LEN_MIN { &mut self.small } else { &mut self.large };
        compress.reset();
        let start = out.len();
        // The buffer is no longer than a stored stream. `compress_vec` is not used because it clears all the spare
        // capacity of `out` first, which for a large pack is megabytes for every small object.
        out.resize(start + content.len() + STORED_EXTRA_LEN, 0);
        let done = compress.compress(content, &mut out[start..], FlushCompress::Finish);
        let len = usize::try_from(compress.total_out()).expect("it is in memory");
        // If the result does not fit or is not shorter, it is discarded.
        if matches!(done, Ok(flate2::Status::StreamEnd)) && len < content.len() + STORED_EXTRA_LEN {
            out.truncate(start + len);
        } else {
            out.truncate(start);
            store_under(DEFAULT, out, content);
        }
    }
}

/// The checksum at the end of a stream (RFC 1950, section 8.2).
fn adler32(content: &[u8]) -> u32 {
    /// The number of bytes that can be added before the sums must be reduced.
    const RUN_LEN: usize = 5_552;
    const BASE: u32 = 65_521;
    let (mut a, mut b) = (1_u32, 0_u32);
    for run in content.chunks(RUN_LEN) {
        for byte in run {
            a += u32::from(*byte);
            b += a;
        }
        (a, b) = (a % BASE, b % BASE);
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_and_deflated_contents_come_back_whole() {
        let random: Vec<u8> = {
            let mut state = 1_u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.to_be_bytes()[0]
            };
            (0..200_000).map(|_| next()).collect()
        };
        let mut deflater = Deflater::default();
        for content in [&b""[..], b"type: media\n", &[b'a'; 70_000], &random[..40], &random, &[0xff; 65_535]]
        {
            let (mut stored, mut deflated) = (Vec::new(), Vec::new());
            store(&mut stored, content);
            deflater.deflate(&mut deflated, content);
            let is_content = |stream: &[u8]| inflated(stream, content.len() as u64).unwrap() == content;
            assert!(is_content(&stored) && is_content(&deflated));
            assert!(inflated(&stored, content.len() as u64 + 1).is_err());
            assert!(is_untried(&stored) && deflated.len() <= stored.len());
            assert!(!is_untried(&deflated));
        }
    }
}
