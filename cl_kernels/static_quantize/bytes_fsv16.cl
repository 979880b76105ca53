// Floats or bytes to blocks of 16 channels of floats or bytes (b_fs_yx_fsv16), with a list of post-operations between.
//
//   v = x, or (x - in_zero) * in_scale of bytes, plus (r - zero of r) * scale of r = r * third + shift where there is res
//   y = what the list makes of v, or nearest(it / first) + zero, saturated to bytes
//
// A ticket is a run of pieces of one channel block of one image: up to 64 pixels of a row, staged as floats in scratch.
//
// source                     of the input: 0 planes of single channels of floats, 1 blocks of floats, 2 blocks of bytes
// inp, in_n, in_c, in_y      the input; pitches in its elements;  res, res_n, res_c, res_y: blocks of bytes, or CLGRAPH_NULL
// scale, zero_point          of the input of bytes: a float, and a byte or CLGRAPH_NULL; with `divided` of the result, whose
//                            bytes are then nearest(v / scale) + zero point
// rounds, out, out_n, out_c, out_y   of the result
// height, width, blocks, lanes         rows and pixels, channel blocks, channels of the last one
// row_pieces, pieces, strips           pieces of a row, of a ticket; tickets of a block
// first .. high              as in micro_bytes.cl
//
// Error: a rounding an operation; a byte is of a value that differs from the exact one by those.
#include "bytes.clh"
#include "post_tile.clh"
#include "transpose.clh"

#define PIECE 64

// Bytes of one row as floats.
NOINLINE static void widen_row(__global const uchar* from, __global float* to, const int count, const float zero,
                               const float scale) {
  for (int i = 0; i < count; i++) STORE16(to + i * 16, (floats_of(from + i * 16) - (float16)(zero)) * (float16)(scale));
}

// Add bytes to one row.
NOINLINE static void add_row(__global const uchar* from, __global float* to, const int count, const float scale,
                             const float shift) {
  for (int i = 0; i < count; i++)
    STORE16(to + i * 16, LOAD16(to + i * 16) + fma(floats_of(from + i * 16), (float16)(scale), (float16)(shift)));
}

static void bytes_fsv16(__global const bytes_fsv16_desc* d, __global char** banks, __global char* scratch,
                        const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, block = ticket / d->strips % d->blocks, n = ticket / d->strips / d->blocks;
  const int last = min((strip + 1) * d->pieces, d->row_pieces * d->height);
  const int lanes = block == d->blocks - 1 ? d->lanes : 16, planes = d->source == 0;
  const long in = (long)n * d->in_n + (long)block * (planes ? 16 : 1) * d->in_c;
  const long out = (long)n * d->out_n + (long)block * d->out_c, res = (long)n * d->res_n + (long)block * d->res_c;
  const float scale = d->source == 2 || d->divided ? *AT(const float, banks, d->scale) : 1.0f;
  const float zero = (d->source == 2 || d->divided) && d->zero_point != CLGRAPH_NULL ? *AT(const uchar, banks, d->zero_point) : 0.0f;
  for (int piece = strip * d->pieces; piece < last; piece++) {
    const int y = piece / d->row_pieces, x = (piece - y * d->row_pieces) * PIECE, count = min(PIECE, d->width - x);
    __global float* row = (__global float*)scratch;
    __global const float* floats = AT(const float, banks, d->inp) + in + (long)y * d->in_y + (planes ? 1 : 16) * x;
    if (planes)
      for (int i = 0; i < count; i += 16)
        transpose_tile(floats + i, d->in_c, row + i * 16, 16, lanes, min(16, count - i), 1);
    else if (d->source == 2)
      widen_row(AT(const uchar, banks, d->inp) + in + (long)y * d->in_y + x * 16, row, count, zero, scale);
    else if (posts || d->res != CLGRAPH_NULL)
      for (int i = 0; i < count; i++) STORE16(row + i * 16, LOAD16(floats + i * 16));
    else
      row = (__global float*)floats;
    if (d->res != CLGRAPH_NULL)
      add_row(AT(const uchar, banks, d->res) + res + (long)y * d->res_y + x * 16, row, count, d->third, d->shift);
    if (posts) post_row(post, posts, banks, row, n, block, y, x, count, lanes, 1);
    const long to = out + (long)y * d->out_y + x * 16;
    if (d->divided) {
      quantize_row(row, AT(uchar, banks, d->out) + to, count, scale, (int)zero, d->low, d->high);
      continue;
    }
    if (d->rounds) {
      quantize_row(row, AT(uchar, banks, d->out) + to, count, d->first, d->zero, d->low, d->high);
      continue;
    }
    const int16 mask = lane_mask(lanes);
    for (int i = 0; i < count; i++)
      STORE16(AT(float, banks, d->out) + to + i * 16, as_float16(as_int16(LOAD16(row + i * 16)) & mask));
  }
}
