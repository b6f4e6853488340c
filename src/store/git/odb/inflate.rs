//! Inflates zlib streams that stand in files, piece by piece and never further than is asked for.
//!
//! The lengths that headers tell are lies until the stream has proved them, so room is made as bytes come.
//! Files are read at offsets and not mapped: one that is cut short meanwhile is an error, and no signal.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use flate2::{Decompress, FlushDecompress, Status};

/// How many bytes of a file are read at a time: most objects have fewer.
const INPUT_LEN: usize = 4 << 10;

/// By how much room is made for content at a time.
const PIECE_LEN: usize = 1 << 20;

/// One stream after the other.
pub(crate) struct Inflater {
    // One for all, since making one takes longer than most contents do.
    decoder: Decompress,
    input: Box<[u8; INPUT_LEN]>,
    /// What of the input is not inflated yet.
    left: std::ops::Range<usize>,
    /// Where the file goes on behind the input, and where the stream has ended at the latest.
    at: u64,
    end: u64,
}

impl Default for Inflater {
    fn default() -> Self {
        let (decoder, input) = (Decompress::new(true), Box::new([0; INPUT_LEN]));
        Self { decoder, input, left: 0..0, at: 0, end: 0 }
    }
}

impl Inflater {
    /// The next bytes of a file from `at` on, fewer than asked for only before `end`.
    pub(crate) fn peek(&mut self, file: &File, at: u64, end: u64) -> io::Result<&[u8]> {
        (self.at, self.end, self.left) = (at, end, 0..0);
        self.refill(file)?;
        Ok(&self.input[self.left.clone()])
    }

    /// Begins a stream `skipped` bytes behind where [`peek`](Self::peek) has looked.
    pub(crate) fn begin(&mut self, skipped: usize) {
        self.decoder.reset(true);
        self.left.start += skipped;
    }

    /// Appends what the stream holds until `out` is `len` bytes long; whether the stream has ended.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] for what is no zlib stream or one that was cut short.
    pub(crate) fn fill(&mut self, file: &File, out: &mut Vec<u8>, len: usize) -> io::Result<bool> {
        while out.len() < len {
            let start = out.len();
            out.resize(len.min(start + PIECE_LEN), 0);
            let (made, has_ended) = self.piece(file, &mut out[start..])?;
            out.truncate(start + made);
            if has_ended {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The rest of a stream that holds `len` bytes in all, of which some are at hand (and whether they are
    /// all that there is); no more than `len_max` of them.
    ///
    /// # Errors
    ///
    /// As [`fill`](Self::fill), and for a stream that is shorter or longer.
    pub(crate) fn content(
        &mut self,
        file: &File,
        (mut content, has_ended): (Vec<u8>, bool),
        len: u64,
        len_max: usize,
    ) -> io::Result<Vec<u8>> {
        let whole_len = usize::try_from(len).ok().filter(|len| *len <= len_max);
        // A byte more, so that what is too long is seen, and the checksum at the end.
        let wanted = whole_len.map_or(len_max, |len| len + 1);
        let has_ended = has_ended || self.fill(file, &mut content, wanted)?;
        let is_right = match whole_len {
            Some(len) => has_ended && content.len() == len,
            None => content.len() >= len_max,
        };
        content.truncate(len_max);
        if is_right { Ok(content) } else { Err(damaged("it is not as long as it says")) }
    }

    /// Fills `out` as far as the stream goes.
    fn piece(&mut self, file: &File, out: &mut [u8]) -> io::Result<(usize, bool)> {
        let mut made = 0;
        while made < out.len() {
            if self.left.is_empty() {
                self.refill(file)?;
            }
            let (taken_before, made_before) = (self.decoder.total_in(), self.decoder.total_out());
            let input = &self.input[self.left.clone()];
            let status = self.decoder.decompress(input, &mut out[made..], FlushDecompress::None);
            let status = status.map_err(|_| damaged("it can't be inflated"))?;
            let taken = as_usize(self.decoder.total_in() - taken_before);
            let new = as_usize(self.decoder.total_out() - made_before);
            self.left.start += taken;
            made += new;
            match status {
                Status::StreamEnd => return Ok((made, true)),
                // Also when a stream has nothing more to say and does not end.
                Status::Ok | Status::BufError if taken == 0 && new == 0 => return Err(cut()),
                Status::Ok | Status::BufError => (),
            }
        }
        Ok((made, false))
    }

    fn refill(&mut self, file: &File) -> io::Result<()> {
        let most = INPUT_LEN.min(as_usize(self.end.saturating_sub(self.at)));
        let mut len = 0;
        while len < most {
            match file.read_at(&mut self.input[len..most], self.at + len as u64) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        self.at += len as u64;
        self.left = 0..len;
        Ok(())
    }
}

fn as_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// Something in a file that makes no sense.
pub(crate) fn damaged(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn cut() -> io::Error {
    damaged("it is cut short")
}
