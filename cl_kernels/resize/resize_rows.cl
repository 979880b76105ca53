// Planes of floats interpolated along rows and columns, which have lists of taps: each axis for itself, sixteen rows at a time.
//
// Grid: n work-items, which take blocks of sixteen rows of y in turn. table: planes, height and width of x, rows and columns
// of y, taps of a row, of a column (0: columns are as in x), neighbours that have the taps of a column in common, as
// channels behind it have: each for itself where they are one (their columns are those of `taps`), else by vectors. taps: pairs (place in x, bits of the weight) of each row, then of each column. An
// element of weight 0 counts nothing, NaN or not. scratch0: for each work-item sixteen rows of as many columns as x has,
// rounded up to sixteen, columns outside. x and y are dense.
// Error: (taps of a row + taps of a column) * 2^-24 * sum |weight x|.
#include "tensor.clh"
#include "transpose.clh"

#define ROWS 16

// The sum of sixteen elements each from[place * pitch], by a list of at most `most` taps, which a weight of 0 ends.
static float16 mixed(__global const int* tap, const int most, __global const float* from, const int pitch) {
  float16 sum = (float16)(0.0f);
  for (int k = 0; k < most && tap[2 * k + 1]; k++)
    sum = fma((float16)(as_float(tap[2 * k + 1])), vload16(0, from + tap[2 * k] * pitch), sum);
  return sum;
}

// The same of `count` elements, fewer than sixteen, and zeros.
static float16 mixed_end(__global const int* tap, const int most, __global const float* from, const int pitch, const int count) {
  float sums[16] = {0};
  for (int k = 0; k < most && tap[2 * k + 1]; k++)
    for (int i = 0; i < count; i++) sums[i] = fma(as_float(tap[2 * k + 1]), from[tap[2 * k] * pitch + i], sums[i]);
  return vload16(0, sums);
}

__kernel void resize_rows(const int n, TENSOR(in0), TENSOR(out0), TENSOR(scratch0), __global const int* table,
                          __global const int* taps) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int height = table[1], width = table[2], rows = table[3], columns = table[4], down = table[5], across = table[6];
  const int unit = table[7];
  const int blocks = (rows + ROWS - 1) / ROWS;
  __global float* stage = BASE_OF(float, scratch0) + (long)id * ROWS * ((width + 15) / 16 * 16);
  __global const int* along = taps + 2 * rows * down;
  float16 v[ROWS];
  for (int job = id; job < table[0] * blocks; job += n) {
    const int plane = job / blocks, first = job % blocks * ROWS, count = min(ROWS, rows - first);
    __global const float* x = BASE_OF(const float, in0) + (long)plane * height * width;
    __global float* y = BASE_OF(float, out0) + ((long)plane * rows + first) * columns;
    for (int r = 0; !across && r < count; r++) {
      __global const int* tap = taps + 2 * (first + r) * down;
      int c = 0;
      for (; c + 16 <= width; c += 16) vstore16(mixed(tap, down, x + c, width), 0, y + (long)r * columns + c);
      float16 end = c < width ? mixed_end(tap, down, x + c, width, width - c) : (float16)(0.0f);
      for (int i = 0; c + i < width; i++) y[(long)r * columns + c + i] = ((const float*)&end)[i];
    }
    for (int r = 0; across && unit > 1 && r < count; r++) {
      __global const int* own = taps + 2 * (first + r) * down;
      for (int c = 0; c < width; c += 16) {
        const float16 sum = c + 16 <= width ? mixed(own, down, x + c, width) : mixed_end(own, down, x + c, width, width - c);
        vstore16(sum, 0, stage + c);
      }
      for (int j = 0; j < columns / unit; j++) {
        __global float* pixel = y + (long)r * columns + j * unit;
        int c = 0;
        for (; c + 16 <= unit; c += 16) vstore16(mixed(along + 2 * j * across, across, stage + c, unit), 0, pixel + c);
        const float16 end = c < unit ? mixed(along + 2 * j * across, across, stage + c, unit) : (float16)(0.0f);
        for (int i = 0; c + i < unit; i++) pixel[c + i] = ((const float*)&end)[i];
      }
    }
    for (int c = 0; across && unit == 1 && c < width; c += 16) {
      for (int r = 0; r < ROWS; r++) {
        __global const int* tap = taps + 2 * min(first + r, rows - 1) * down;
        v[r] = c + 16 <= width ? mixed(tap, down, x + c, width) : mixed_end(tap, down, x + c, width, width - c);
      }
      transpose16(v);
      for (int i = 0; i < 16; i++) vstore16(v[i], c + i, stage);
    }
    for (int c = 0; across && unit == 1 && c < columns; c += 16) {
      for (int i = 0; i < 16; i++) v[i] = mixed(along + 2 * min(c + i, columns - 1) * across, across, stage, 16);
      transpose16(v);
      for (int r = 0; r < count; r++, y += columns) {
        if (c + 16 <= columns)
          vstore16(v[r], 0, y + c);
        else {
          float part[16];
          vstore16(v[r], 0, part);
          for (int i = 0; c + i < columns; i++) y[c + i] = part[i];
        }
      }
      y -= count * columns;
    }
  }
}
