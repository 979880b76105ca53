// Bytes in blocks of 16 channels (b_fs_yx_fsv16) to plain [N, C, H, W].
//
// A ticket is a run of the pixels of one channel block of one image; no plane has gaps between its rows.
//
// inp, in_n, in_c       the input; bytes from one image, channel block to the next
// out, out_n, out_c     the result, at any alignment; bytes from one image, channel to the next
// pixels, blocks, lanes, strips, strip_pixels   as in block_bytes.cl
#include "tile.clh"
#include "transpose.clh"

static void unblock_bytes(__global const unblock_bytes_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, block = ticket / d->strips % d->blocks, n = ticket / d->strips / d->blocks;
  const int last = min((strip + 1) * d->strip_pixels, d->pixels), lanes = block == d->blocks - 1 ? d->lanes : 16;
  const long pitch = d->out_c;
  __global const uchar* in = AT(const uchar, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global uchar* out = AT(uchar, banks, d->out) + (long)n * d->out_n + block * 16 * pitch;
  for (int x = strip * d->strip_pixels; x < last; x += 16)
    turn_uchar(in + x * 16, 16, out + x, pitch, min(16, last - x), lanes);
}
