// Floats or bytes to blocks of 16 channels of floats or bytes (b_fs_yx_fsv16), with a list of post-operations between.
//
//   v = x, or (x - in_zero) * in_scale of bytes
//   y = what the list makes of v, or nearest(it / first) + zero, saturated to bytes; of these the entries where there are
//
// or y = entries[x] alone
//
// A ticket is a run of pieces of one channel block of one image: up to 64 pixels of a row, as floats in scratch where the
// result is of bytes.
//
// source                     of the input: 0 planes of single channels of floats, 1 blocks of floats, 2 blocks of bytes, 3
//                            those whose entries alone are wanted
// inp, in_n, in_c, in_y      the input; pitches in its elements
// scale, zero_point          of the input of bytes: a float, and a byte or CLGRAPH_NULL; with `divided` of the result, whose
//                            bytes are then nearest(v / scale) + zero point
// entries                    256 bytes, or CLGRAPH_NULL
// rounds, out, out_n, out_c, out_y   of the result
// height, width, blocks, lanes         rows and pixels, channel blocks, channels of the last one
// above, below, before, behind         halo of a result of floats
// row_pieces, pieces, strips           pieces of a row, of a ticket; tickets of a block
// first .. high              as in micro_bytes.cl
//
// Error: a rounding an operation; a byte is of a value that differs from the exact one by those.
#include "fsv16.clh"
#include "post_tile.clh"
#include "transpose.clh"

#define PIECE 64

// Bytes of one row as floats.
NOINLINE static void widen_row(__global const uchar* from, __global float* to, const int count, const float zero,
                               const float scale) {
  for (int i = 0; i < count; i++) STORE16(to + i * 16, (floats_of(from + i * 16) - (float16)(zero)) * (float16)(scale));
}

// Pixels of up to 4 planes, `in_c` floats apart, as blocks of bytes: what quantize_row makes of them, other lanes zeros.
NOINLINE static void quantize_planes(__global const float* from, const long in_c, __global uchar* to, const int count,
                                     const int planes, const float by, const int zero, const int low, const int high) {
  for (int i = 0; i < count; i += 16) {
    const int wide = min(16, count - i);
    int16 pixels = 0;
    for (int c = 0; c < planes; c++) {
      __global const float* row = from + c * in_c + i;
      float16 v = 0;
      if (wide == 16) {
        v = LOAD_LOOSE(row);
      } else {
        float part[16];
        for (int k = 0; k < wide; k++) part[k] = row[k];
        for (int k = wide; k < 16; k++) part[k] = 0;
        v = vload16(0, part);
      }
      const int16 q = nearest_ints(bounded_floats(step_quotient(v, by))) + zero;
      pixels |= min(max(q, (int16)(low & 255)), (int16)(high & 255)) << (8 * c);
    }
    const int16 p = pixels, a = {p.s0, 0, 0, 0, p.s1, 0, 0, 0, p.s2, 0, 0, 0, p.s3, 0, 0, 0};
    const int16 b = {p.s4, 0, 0, 0, p.s5, 0, 0, 0, p.s6, 0, 0, 0, p.s7, 0, 0, 0};
    const int16 c = {p.s8, 0, 0, 0, p.s9, 0, 0, 0, p.sa, 0, 0, 0, p.sb, 0, 0, 0};
    const int16 d = {p.sc, 0, 0, 0, p.sd, 0, 0, 0, p.se, 0, 0, 0, p.sf, 0, 0, 0};
    store_bytes(to + i * 16, a, wide, 16);
    if (wide > 4) store_bytes(to + (i + 4) * 16, b, wide - 4, 16);
    if (wide > 8) store_bytes(to + (i + 8) * 16, c, wide - 8, 16);
    if (wide > 12) store_bytes(to + (i + 12) * 16, d, wide - 12, 16);
  }
}

static void bytes_fsv16(__global const bytes_fsv16_desc* d, __global char** banks, __global char* scratch,
                        const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, block = ticket / d->strips % d->blocks, n = ticket / d->strips / d->blocks;
  const int last = min((strip + 1) * d->pieces, d->row_pieces * d->height);
  const int lanes = block == d->blocks - 1 ? d->lanes : 16, planes = d->source == 0;
  const long in = (long)n * d->in_n + (long)block * (planes ? 16 : 1) * d->in_c;
  const long out = (long)n * d->out_n + (long)block * d->out_c;
  const float scale = d->source == 2 || d->divided ? *AT(const float, banks, d->scale) : 1.0f;
  const float zero = (d->source == 2 || d->divided) && d->zero_point != CLGRAPH_NULL ? *AT(const uchar, banks, d->zero_point) : 0.0f;
  const int few = d->source == 0 && lanes <= 4 && (d->rounds || d->divided) && !posts;
  const int looks_up = d->entries != CLGRAPH_NULL;
  const int16 mask = lane_mask(lanes);
  byte_table table;
  if (looks_up) table = table_of(AT(const uchar, banks, d->entries));
  for (int piece = strip * d->pieces; piece < last; piece++) {
    const int y = piece / d->row_pieces, x = (piece - y * d->row_pieces) * PIECE, count = min(PIECE, d->width - x);
    const long to = out + (long)y * d->out_y + x * 16;
    __global uchar* bytes = AT(uchar, banks, d->out) + to;
    if (d->source == 3) {
      look_up_row(AT(const uchar, banks, d->inp) + in + (long)y * d->in_y + x * 16, bytes, count, table);
      continue;
    }
    __global float *plane = AT(float, banks, d->out) + out, *result = plane + (to - out);
    __global float* row = d->divided || d->rounds ? (__global float*)scratch : result;
    __global const float* floats = AT(const float, banks, d->inp) + in + (long)y * d->in_y + (planes ? 1 : 16) * x;
    if (few) {
      quantize_planes(floats, d->in_c, bytes, count, lanes, d->divided ? scale : d->first,
                      d->divided ? (int)zero : d->zero, d->low, d->high);
      if (looks_up) look_up_row(bytes, bytes, count, table);
      continue;
    }
    if (planes)
      for (int i = 0; i < count; i += 16)
        transpose_tile(floats + i, d->in_c, row + i * 16, 16, lanes, min(16, count - i), 1);
    else if (d->source == 2)
      widen_row(AT(const uchar, banks, d->inp) + in + (long)y * d->in_y + x * 16, row, count, zero, scale);
    else if (posts)
      for (int i = 0; i < count; i++) STORE16(row + i * 16, LOAD16(floats + i * 16));
    else
      row = (__global float*)floats;
    if (posts) post_row(post, posts, banks, row, n, block, y, x, count, lanes, 1);
    if (d->divided) {
      quantize_row(row, bytes, count, scale, (int)zero, d->low, d->high);
      continue;
    }
    if (d->rounds) {
      quantize_row(row, bytes, count, d->first, d->zero, d->low, d->high);
      if (looks_up) look_up_row(bytes, bytes, count, table);
      continue;
    }
    for (int i = 0; (row != result || lanes < 16) && i < count; i++)
      STORE16(result + i * 16, as_float16(as_int16(LOAD16(row + i * 16)) & mask));
    zero_halo(plane, d->out_y, y, x, count, d->height, d->width, d->above, d->below, d->before, d->behind);
  }
}
