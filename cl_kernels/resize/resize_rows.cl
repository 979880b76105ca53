// Planes of floats or doubles interpolated along rows and columns, which have lists of taps: each axis for itself, sixteen rows
// at a time.
//
// Grid: n work-items, which take blocks of sixteen rows of y in turn. table: planes, height and width of x, rows and columns
// of y, taps of a row, of a column (0: columns are as in x), neighbours that have the taps of a column in common, as
// channels behind it have: each for itself where they are one (their columns are those of `taps`), else by vectors. taps:
// place in x and bits of the weight, TAP numbers, of each tap of each row, then of each column. An element of weight 0 counts
// nothing, NaN or not. scratch0: for each work-item sixteen rows of as many columns as x has, rounded up to sixteen, columns
// outside. x and y are dense.
// DOUBLES: elements and weights are doubles.
// Error: (taps of a row + taps of a column) * 2^-24 * sum |weight x|, of doubles 2^-53.
#include "tensor.clh"
#include "transpose.clh"

#define ROWS 16
#define TAP (1 + PARAMETER_INTS)
#define WEIGHT(tap) PARAMETER((tap) + 1, 0)
#ifdef DOUBLES
  #define REAL16 double16
static void turn16(double16* v) {
  double all[256];
  for (int r = 0; r < 16; r++) vstore16(v[r], r, all);
  for (int c = 0; c < 16; c++)
    for (int r = 0; r < 16; r++) ((double*)&v[c])[r] = all[r * 16 + c];
}
#else
  #define REAL16 float16
  #define turn16 transpose16
#endif

// The sum of sixteen elements each from[place * pitch], by a list of at most `most` taps, which a weight of 0 ends.
static REAL16 mixed(__global const int* tap, const int most, __global const REAL* from, const int pitch) {
  REAL16 sum = (REAL16)(0);
  for (int k = 0; k < most && WEIGHT(tap + TAP * k) != 0; k++)
    sum = fma((REAL16)(WEIGHT(tap + TAP * k)), vload16(0, from + tap[TAP * k] * pitch), sum);
  return sum;
}

// The same of `count` elements, fewer than sixteen, and zeros.
static REAL16 mixed_end(__global const int* tap, const int most, __global const REAL* from, const int pitch, const int count) {
  REAL sums[16] = {0};
  for (int k = 0; k < most && WEIGHT(tap + TAP * k) != 0; k++)
    for (int i = 0; i < count; i++) sums[i] = fma(WEIGHT(tap + TAP * k), from[tap[TAP * k] * pitch + i], sums[i]);
  return vload16(0, sums);
}

__kernel void resize_rows(const int n, TENSOR(in0), TENSOR(out0), TENSOR(scratch0), __global const int* table,
                          __global const int* taps) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int height = table[1], width = table[2], rows = table[3], columns = table[4], down = table[5], across = table[6];
  const int unit = table[7];
  const int blocks = (rows + ROWS - 1) / ROWS;
  __global REAL* stage = BASE_OF(REAL, scratch0) + (long)id * ROWS * ((width + 15) / 16 * 16);
  __global const int* along = taps + TAP * rows * down;
  REAL16 v[ROWS];
  for (int job = id; job < table[0] * blocks; job += n) {
    const int plane = job / blocks, first = job % blocks * ROWS, count = min(ROWS, rows - first);
    __global const REAL* x = BASE_OF(const REAL, in0) + (long)plane * height * width;
    __global REAL* y = BASE_OF(REAL, out0) + ((long)plane * rows + first) * columns;
    for (int r = 0; !across && r < count; r++) {
      __global const int* tap = taps + TAP * (first + r) * down;
      int c = 0;
      for (; c + 16 <= width; c += 16) vstore16(mixed(tap, down, x + c, width), 0, y + (long)r * columns + c);
      REAL16 end = c < width ? mixed_end(tap, down, x + c, width, width - c) : (REAL16)(0);
      for (int i = 0; c + i < width; i++) y[(long)r * columns + c + i] = ((const REAL*)&end)[i];
    }
    for (int r = 0; across && unit > 1 && r < count; r++) {
      __global const int* own = taps + TAP * (first + r) * down;
      for (int c = 0; c < width; c += 16) {
        const REAL16 sum = c + 16 <= width ? mixed(own, down, x + c, width) : mixed_end(own, down, x + c, width, width - c);
        vstore16(sum, 0, stage + c);
      }
      for (int j = 0; j < columns / unit; j++) {
        __global REAL* pixel = y + (long)r * columns + j * unit;
        int c = 0;
        for (; c + 16 <= unit; c += 16) vstore16(mixed(along + TAP * j * across, across, stage + c, unit), 0, pixel + c);
        const REAL16 end = c < unit ? mixed(along + TAP * j * across, across, stage + c, unit) : (REAL16)(0);
        for (int i = 0; c + i < unit; i++) pixel[c + i] = ((const REAL*)&end)[i];
      }
    }
    for (int c = 0; across && unit == 1 && c < width; c += 16) {
      for (int r = 0; r < ROWS; r++) {
        __global const int* tap = taps + TAP * min(first + r, rows - 1) * down;
        v[r] = c + 16 <= width ? mixed(tap, down, x + c, width) : mixed_end(tap, down, x + c, width, width - c);
      }
      turn16(v);
      for (int i = 0; i < 16; i++) vstore16(v[i], c + i, stage);
    }
    for (int c = 0; across && unit == 1 && c < columns; c += 16) {
      for (int i = 0; i < 16; i++) v[i] = mixed(along + TAP * min(c + i, columns - 1) * across, across, stage, 16);
      turn16(v);
      for (int r = 0; r < count; r++, y += columns) {
        if (c + 16 <= columns)
          vstore16(v[r], 0, y + c);
        else {
          REAL part[16];
          vstore16(v[r], 0, part);
          for (int i = 0; c + i < columns; i++) y[c + i] = part[i];
        }
      }
      y -= count * columns;
    }
  }
}
