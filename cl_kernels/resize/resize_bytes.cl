// The nearest pixels of a tensor of bytes in blocks of 16 channels (b_fs_yx_fsv16), along rows and columns. Exact.
//
// A ticket is a strip of rows of one channel block of one image; it first writes the columns' taps to scratch.
//
// inp, in_n, in_c, in_y, in_height, in_width        the input, its pitches in bytes, its size
// out, out_n, out_c, out_y, height, width           the result
// middle, origin, factor_y, divisor_y, offset_y, factor_x, divisor_x, offset_x, rule   as in resize_fsv16.cl
// blocks, strips, strip_rows                        channel blocks, tickets of a block, rows of a ticket
#include "resize_taps.clh"
#include "tile.clh"

static void resize_bytes(__global const resize_bytes_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width;
  __global const char* in = AT(const char, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global char* out = AT(char, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  __global int* taps = (__global int*)scratch;
  for (int x = 0; x < width; x++) {
    const float at = (d->offset_x + (x + d->middle) * d->factor_x / d->divisor_x) - d->origin;
    taps[x] = resize_taps(at, 0, d->rule, d->in_width).x;
  }
  for (int y = strip * d->strip_rows; y < y1; y++) {
    const float at = (d->offset_y + (y + d->middle) * d->factor_y / d->divisor_y) - d->origin;
    __global const int4* row = (__global const int4*)(in + (long)resize_taps(at, 0, d->rule, d->in_height).x * d->in_y);
    __global int4* to = (__global int4*)(out + (long)y * d->out_y);
    for (int x = 0; x < width; x++) to[x] = row[taps[x]];
  }
}
