// Plain bytes [N, C, H, W] to blocks of 16 channels (b_fs_yx_fsv16), with zeros for missing channels.
//
// A ticket is a run of the pixels of one channel block of one image; a plane has no gaps between its rows.
//
// inp, in_n, in_c       the input, at any alignment; bytes from one image, channel to the next
// out, out_n, out_c     the result; bytes from one image, channel block to the next
// pixels                of a plane
// blocks, lanes         channel blocks of an image, channels of the last
// strips, strip_pixels  tickets of a block, pixels of a ticket
#include "tile.clh"
#include "transpose.clh"

// Sixteen pixels of `lanes` channels, and zeros for the others.
static inline void block_few(__global const uchar* from, const long pitch, __global uchar* to, const int lanes) {
#define ROW(i) ((i) < lanes ? (uint4)(*(__global const loose_words4*)(from + (i) * pitch)) : (uint4)(0))
#define FOURTH_ROWS(q) (uint16)(ROW(q), ROW(4 + q), ROW(8 + q), ROW(12 + q))
  turn_words(FOURTH_ROWS(0), FOURTH_ROWS(1), FOURTH_ROWS(2), FOURTH_ROWS(3), to, 16);
#undef ROW
#undef FOURTH_ROWS
}

static void block_bytes(__global const block_bytes_desc* d, __global char** banks, __global char* scratch, const int ticket,
                        __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, block = ticket / d->strips % d->blocks, n = ticket / d->strips / d->blocks;
  const int last = min((strip + 1) * d->strip_pixels, d->pixels), lanes = block == d->blocks - 1 ? d->lanes : 16;
  const long pitch = d->in_c;
  __global const uchar* in = AT(const uchar, banks, d->inp) + (long)n * d->in_n + block * 16 * pitch;
  __global uchar* out = AT(uchar, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  int x = strip * d->strip_pixels;
  for (; x + 16 <= last; x += 16)
    if (lanes == 16) turn_uchar(in + x, pitch, out + x * 16, 16, 16, 16);
    else block_few(in + x, pitch, out + x * 16, lanes);
  for (; x < last; x++)
    for (int c = 0; c < 16; c++) out[x * 16 + c] = c < lanes ? in[c * pitch + x] : 0;
}
