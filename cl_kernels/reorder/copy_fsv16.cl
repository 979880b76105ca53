// A blocked tensor (b_fs_yx_fsv16) copied into one with other halo or pitches, and the list applied to it: halos, and all
// elementwise functions. Without gaps between rows a plane is one row.
//
// A ticket is a run of pieces of one channel block of one image, a piece at most `piece` pixels of a row.
//
// inp, in_n, in_c, in_y      pixel (0, 0) of channel block 0; pitches in floats; may be the output's memory
// out, out_n, out_c, out_y   the output
// height, width, top, bottom, left, right   of the output
// blocks, lanes              channel blocks of an image, channels of the last; missing channels are copied as zeros
// piece, row_pieces          pixels of a piece, pieces of a row
// strips, strip_pieces       tickets of a block, pieces of a ticket
#include "fsv16.clh"

static void copy_fsv16(__global const copy_fsv16_desc* d, __global char** banks, __global char* scratch,
                       const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int last = min((strip + 1) * d->strip_pieces, d->height * d->row_pieces), width = d->width;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  for (int p = strip * d->strip_pieces; p < last; p++) {
    const int y = p / d->row_pieces, x = (p - y * d->row_pieces) * d->piece, count = min(d->piece, width - x);
    __global const float* from = in + (long)y * d->in_y + x * 16;
    __global float* to = out + (long)y * d->out_y + x * 16;
    if (from != to)
      for (int i = 0; i < count; i++) STORE16(to + i * 16, LOAD16(from + i * 16));
    if (posts)
      post_row(post, posts, banks, to, n, block, y, x, count, block == d->blocks - 1 ? d->lanes : 16, 1);
    zero_halo(out, d->out_y, y, x, count, d->height, width, d->top, d->bottom, d->left, d->right);
  }
}
