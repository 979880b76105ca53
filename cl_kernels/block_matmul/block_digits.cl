// Rows of floats as integers of three bytes, or one, that have a scale a block. A ticket is a run of rows.
//
// x            rows of `depth` floats, side by side
// digits       [blocks][pitch][block / 16][count][16] signed bytes: x[k] = scale (d0 + 256 d1 + 65536 d2), or scale d0;
//              zeros behind the last
// sums         [blocks][pitch][parts] ints: of the digits of a block, or of its numbers, times `factor`; 16 bits hold those of
//              digits where that is -1 (the largest number of a block has no digit of -128)
// scales       [blocks][pitch] floats: the largest number of the block / LARGEST
// pitch        rows that there is room for
// count        3 or 1
// parts        count, or 1
//
// Error: half a step, max |x of the block| / (2 LARGEST): 2^-24 of it with three bytes, 2^-8 with one, plus 2^-24 |x|; a
// block whose numbers are all below 2^-100 counts as zeros. A block with an infinity or NaN has the scale NaN.
#include "rows.clh"
#include "vnni.clh"

#define LARGEST_3 8355000.0f  // below 127 (1 + 256 + 65536) by more than what rounding adds
#define LARGEST_1 127.0f
#define ROW_RUN 16  // rows whose blocks are written one behind the other

// To the nearest integer, halves away from zero.
static int16 nearest(const float16 v) {
  return INTS_OF(v + as_float16((as_int16(v) & (int16)(0x80000000)) | as_int16((float16)(0.5f))));
}

// Numbers 16 i .. 16 i + 15 of a row of `depth`, zeros behind it.
static float16 numbers(__global const float* x, const int i, const int depth) {
  if (i * 16 + 16 <= depth) return LOAD_LOOSE(x + i * 16);
  return i * 16 < depth ? load_row(x, i, depth, 0.0f) : (float16)(0.0f);
}

static int total(const int16 v) {
  const int8 v8 = v.lo + v.hi;
  const int4 v4 = v8.lo + v8.hi;
  const int2 v2 = v4.lo + v4.hi;
  return v2.x + v2.y;
}

// A block of a row.
static void digits_of(__global const float* x, const int first, const int end, const int depth, const int count,
                      const int parts, const int factor, __global char* to, __global int* sums, __global float* scale) {
  const float largest = count == 3 ? LARGEST_3 : LARGEST_1;
  int16 top = 0;
  for (int i = first; i < end; i++) {
    const int16 v = as_int16(numbers(x, i, depth)) & 0x7fffffff;
    top = v > top ? v : top;
  }
  const int8 t8 = max(top.lo, top.hi);
  const int4 t4 = max(t8.lo, t8.hi);
  const int2 t2 = max(t4.lo, t4.hi);
  const int bits = max(t2.x, t2.y);
  const bool finite = bits < 0x7f800000, some = finite && bits > 0x0d800000;
  const float inverse = some ? largest / as_float(bits) : 0.0f;
  *scale = finite ? as_float(bits) / largest : NAN;
  int16 sum0 = 0, sum1 = 0, sum2 = 0;
  for (int i = first; i < end; i++, to += 16) {
    const float16 v = some ? numbers(x, i, depth) * inverse : (float16)(0.0f);
    int16 q = nearest(v);
    if (count == 3) {
      const int16 d0 = q << 24 >> 24;
      q = (q - d0) >> 8;
      const int16 d1 = q << 24 >> 24;
      q = (q - d1) >> 8;
      *(__global char16*)to = BYTES_OF(d0);
      *(__global char16*)(to + 16) = BYTES_OF(d1);
      to += 32;
      sum1 += d0;
      sum2 += d1;
    }
    *(__global char16*)to = BYTES_OF(q);
    sum0 += q;
  }
  if (parts < count) sum0 = (((sum0 << 8) + sum2) << 8) + sum1;
  sums[parts - 1] = total(sum0) * factor;
  if (parts == 3) {
    sums[0] = total(sum1) * factor;
    sums[1] = total(sum2) * factor;
  }
}

static void block_digits(__global const block_digits_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int depth = d->depth, block = d->block, count = d->count, parts = d->parts, pitch = d->pitch;
  const int blocks = (depth + block - 1) / block;
  const int last = min((ticket + 1) * d->ticket_rows, d->rows);
  for (int y0 = ticket * d->ticket_rows; y0 < last; y0 += ROW_RUN)
    for (int b = 0; b < blocks; b++)
      for (int y = y0; y < min(y0 + ROW_RUN, last); y++) {
        const long row = (long)b * pitch + y;
        digits_of(AT(const float, banks, d->x) + (long)y * depth, b * block / 16, (b + 1) * block / 16, depth, count,
                  parts, d->factor, AT(char, banks, d->digits) + row * block * count, AT(int, banks, d->sums) + row * parts,
                  AT(float, banks, d->scales) + row);
      }
}
