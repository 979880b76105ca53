// Convolution with groups, bias and post-operations on Intel's matrix units: an implicit matrix product in sub-groups, without
// local memory.
//
// x [N, C, H, W] and y [N, O, H, W] in byxf, w [O / LANES][kh][kw][C / 2][LANES][2] (C of a group), bias [O] or none; half. The
// rows of the product are the pixels of all images, its columns the outputs of a group, its k the taps times the
// channels. C of a group is a multiple of 16; O of a group one of LANES, where there are several groups. A product of
// matrices is a convolution of one tap whose pixels are its rows.
// Grid: (LANES * column tiles, sub-groups, groups), groups of (LANES, SUB_GROUP_COUNT); a sub-group makes 8 ROWS pixels of
// LANES * COLUMNS outputs (defaults: 2, 4; SUB_GROUP_COUNT: 4).
// table: as of convolution_nvidia.cl; taps: offset in x and place along y and x of each.
// Error: k * 2^-23 * sum |x w|, sums in float in an order that the unit chooses, rounded or truncated, plus the
// post-operations'.
#ifndef ROWS
  #define ROWS 2
#endif
#ifndef COLUMNS
  #define COLUMNS 4
#endif
#ifndef SUB_GROUP_COUNT
  #define SUB_GROUP_COUNT 4
#endif
#include "matrix_convolution.clh"
#include "pixel_window.clh"
#include "intel_matrix.clh"

// No branch: the loads of all rows are under way at once.
#define ROW(i)                                    \
  row = BROADCAST(from[r], i);                    \
  word = READ_ROW(source + max(row, 0) + channel); \
  a[r].s##i = row >= 0 ? word : 0;

__kernel SUB_GROUPS __attribute__((reqd_work_group_size(LANES, SUB_GROUP_COUNT, 1))) void convolution_intel(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table, __global const int* taps,
    POST_PARAMETERS) {
  __global const int* x = table + VIEW;
  __global const int* rest = x + VIEW;
  const int channels = rest[0], outputs = rest[1], tap_count = rest[2], height = rest[4], width = rest[5];
  const int pixels = rest[3] * height * width, lane = get_local_id(0), group = get_group_id(2);
  const int p0 = (int)get_global_id(1) * 8 * ROWS, o0 = get_group_id(0) * LANES * COLUMNS;
  __global const T* source = BASE_OF(const T, in0) + x[0] + group * channels;
  // Words of the weights of LANES outputs. Beyond the last outputs those of the last are read, and not written.
  const int step = channels / 2 * LANES, last = (outputs - 1) / LANES;
  __global const uint* weights = BASE_OF(const uint, in1) + (long)(group * outputs / LANES) * tap_count * step;

  // Lane i has pixel i of each eight: where its window starts.
  int top[ROWS], left[ROWS], base[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) pixel_window(p0 + 8 * r + lane % 8, pixels, x, rest, top + r, left + r, base + r);
  float8 sums[ROWS * COLUMNS];
#pragma unroll
  for (int i = 0; i < ROWS * COLUMNS; i++) sums[i] = (float8)(0.0f);

  for (int tap = 0; tap < tap_count; tap++) {
    __global const int* t = taps + 3 * tap;
    int from[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const int inside = (uint)(top[r] + t[1]) < (uint)rest[6] && (uint)(left[r] + t[2]) < (uint)rest[7];
      from[r] = inside ? base[r] + t[0] : -1;
    }
    for (int channel = 0; channel < channels; channel += 16) {
      UNIT_A a[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        int row;
        UNIT_WORD word;
        ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7)
      }
#pragma unroll
      for (int c = 0; c < COLUMNS; c++) {
        const long block = min(o0 / LANES + c, last);
        const int8 b = READ_COLUMNS(weights + (block * tap_count + tap) * step + channel / 2 * LANES);
#pragma unroll
        for (int r = 0; r < ROWS; r++) sums[COLUMNS * r + c] = MULTIPLY(a[r], b, sums[COLUMNS * r + c]);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < ROWS * COLUMNS; n++) {
    const int p = p0 + n / COLUMNS * 8, o = o0 + n % COLUMNS * LANES + lane;
    const float eight[8] = {sums[n].s0, sums[n].s1, sums[n].s2, sums[n].s3,
                            sums[n].s4, sums[n].s5, sums[n].s6, sums[n].s7};
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (p + i < pixels && o < outputs)
        convolution_write(eight[i], p + i, o, group, table, PASS(in2), PASS(out0), PASS_POSTS);
  }
}
