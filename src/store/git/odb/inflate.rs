//! Inflates zlib streams in files, never further than requested.
//!
//! The length in a header is not trusted until the stream has confirmed it, so memory is allocated as bytes arrive.
//! Files are read at offsets and not mapped: a file that is truncated in the meantime is an error, not a signal.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use flate2::bufread::ZlibDecoder;

/// How many bytes of a file are read at a time: most objects are smaller.
const INPUT_LEN: usize = 4 << 10;

/// The maximum allocation made before content arrives.
const ROOM_LEN_MAX: usize = 1 << 20;

/// Inflates one stream after another.
pub(crate) struct Inflater {
    // Shared by all streams, because creating one takes longer than inflating most contents.
    decoder: ZlibDecoder<BufReader<Part>>,
}

#[derive(Default)]
struct Part {
    file: Option<Arc<File>>,
    at: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(file) = &self.file else { return Ok(0) };
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let most = out.len().min(left);
        let read = file.read_at(&mut out[..most], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Self { decoder: ZlibDecoder::new(BufReader::with_capacity(INPUT_LEN, Part::default())) }
    }
}

impl Inflater {
    /// Returns the next bytes of a file from `at` on; they may be few before `end`. [`skip`](Self::skip) moves to
    /// the start of a stream.
    pub(crate) fn peek(&mut self, file: &Arc<File>, at: u64, end: u64) -> io::Result<&[u8]> {
        let part = Part { file: Some(Arc::clone(file)), at, end };
        self.decoder.reset(BufReader::with_capacity(INPUT_LEN, part));
        self.decoder.get_mut().fill_buf()
    }

    pub(crate) fn skip(&mut self, len: usize) {
        self.decoder.get_mut().consume(len);
    }

    /// Appends the stream's content until `out` has `len` bytes or the stream ends.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if it is not a zlib stream or is cut short.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>, len: usize) -> io::Result<()> {
        let more = len.saturating_sub(out.len());
        out.reserve(more.min(ROOM_LEN_MAX));
        let filled = self.decoder.by_ref().take(more as u64).read_to_end(out);
        filled.map(drop).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => damaged("it can't be inflated"),
            io::ErrorKind::UnexpectedEof => damaged("it is cut short"),
            _ => error,
        })
    }

    /// Returns the whole content of a stream of `len` bytes, of which `content` is the beginning, truncated to
    /// `len_max` bytes.
    ///
    /// # Errors
    ///
    /// As [`fill`](Self::fill), and for a stream that is shorter or longer.
    pub(crate) fn content(&mut self, mut content: Vec<u8>, len: u64, len_max: usize) -> io::Result<Vec<u8>> {
        let whole_len = usize::try_from(len).ok().filter(|len| *len <= len_max);
        // One more byte is read to detect excess content and to verify the checksum at the end.
        self.fill(&mut content, whole_len.map_or(len_max, |len| len + 1))?;
        let is_right = whole_len.map_or(content.len() >= len_max, |len| content.len() == len);
        content.truncate(len_max);
        if is_right { Ok(content) } else { Err(damaged("it is not as long as it says")) }
    }
}

pub(crate) fn damaged(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
