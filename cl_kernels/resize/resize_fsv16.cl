// The pixels of a blocked tensor (b_fs_yx_fsv16) interpolated along rows and columns: nearest or linear.
//
// Output element i of an axis lies at (offset + (i + middle) * factor / divisor) - origin of the input, in float. A ticket is
// a strip of rows of one channel block of one image; it first writes the columns' taps to scratch.
//
// inp, in_n, in_c, in_y, in_height, in_width        the input from pixel (0, 0) on, its pitches in floats, its size
// out, out_n, out_c, out_y, height, width, top, bottom, left, right   the output and its halo
// middle, origin, factor_y, divisor_y, offset_y, factor_x, divisor_x, offset_x   the map of coordinates
// linear     1: between the two neighbours; 0: the nearest, by `rule`: 0 down, 1 up, 2 ties down, 3 ties up
// blocks, lanes, strips, strip_rows   as in pool_fsv16.cl
// staged     1: operations stand in front, and a row under a pixel is staged in scratch once for all that lie beside it
// stage_at   where in scratch, in bytes
// scale, shift, scale_n, scale_c, scale_l, shift_n, shift_c, shift_l, below, above, pres   as in staging.clh
//
// Linear: |error| <= 6 2^-24 times the largest of the four pixels.
#include "fsv16.clh"
#include "resize_taps.clh"
#include "staging.clh"

static void resize_fsv16(__global const resize_fsv16_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width, linear = d->linear;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  __global int2* taps = (__global int2*)scratch;
  __global float* parts = (__global float*)(taps + width);
  for (int x = 0; x < width; x++) {
    const float at = (d->offset_x + (x + d->middle) * d->factor_x / d->divisor_x) - d->origin;
    taps[x] = resize_taps(at, linear, d->rule, d->in_width) * 16;
    parts[x] = at - floor(at);
  }
  const staging_heads heads = STAGING_OF(d);
  __global float* stage = (__global float*)(scratch + d->stage_at);
  const int lanes = block == d->blocks - 1 ? d->lanes : 16;
  int2 held = (int2)(-1);
  for (int y = strip * d->strip_rows; y < y1; y++) {
    const float at = (d->offset_y + (y + d->middle) * d->factor_y / d->divisor_y) - d->origin;
    const int2 rows = resize_taps(at, linear, d->rule, d->in_height);
    __global const float *upper = in + (long)rows.x * d->in_y, *lower = in + (long)rows.y * d->in_y;
    if (d->staged) {
      __global float* second = stage + d->in_width * 16;
      if (held.x != rows.x) stage_row(heads, banks, post, upper, stage, n, block, rows.x, 0, d->in_width, 1, lanes);
      if (linear && held.y != rows.y)
        stage_row(heads, banks, post, lower, second, n, block, rows.y, 0, d->in_width, 1, lanes);
      held = rows;
      upper = stage;
      lower = second;
    }
    __global float* to = out + (long)y * d->out_y;
    const float16 part_y = (float16)(at - floor(at)), rest_y = 1.0f - part_y;
    for (int x = 0; x < width; x++) {
      const int2 k = taps[x];
      float16 v = LOAD16(upper + k.x);
      if (linear) {
        const float16 part_x = (float16)(parts[x]), rest_x = 1.0f - part_x;
        const float16 high = v * rest_x + LOAD16(upper + k.y) * part_x;
        v = high * rest_y + (LOAD16(lower + k.x) * rest_x + LOAD16(lower + k.y) * part_x) * part_y;
      }
      STORE16(to + x * 16, v);
    }
    if (posts > d->pres) post_row(post + d->pres, posts - d->pres, banks, to, n, block, y, 0, width, lanes, 1);
    zero_halo(out, d->out_y, y, 0, width, d->height, width, d->top, d->bottom, d->left, d->right);
  }
}
