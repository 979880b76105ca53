// Convolution with groups, bias and post-operations on AMD's matrix units: an implicit matrix product, tiles in local memory.
//
// x [N, C, H, W] and y [N, O, H, W] in byxf, w [O][kh][kw][C / groups], bias [O] or none; half. The rows of the product are the
// pixels of all images, its columns the outputs of a group, its k the taps times the channels. C of a group is a multiple
// of 8. A product of matrices is a convolution of one tap whose pixels are its rows.
// Grid: (column tiles * ITEMS, row tiles, groups), groups of ITEMS: WAVES x WAVES waves (default 2), each of which makes
// 16 EACH pixels of 16 EACH outputs (default 4).
// table: as of convolution_nvidia.cl; taps: offset in x and place along y and x of each.
// LANES, WORDS: as of amd_matrix.clh. A lane has of row or column `lane % 16` all 16 halves (WORDS 8), or those from
// 2 WORDS * (lane / 16) on; its sums are of column `lane % 16`, of rows SUM_ROW(i).
// Error: k * 2^-23 * sum |x w|, sums in float in an order that the unit chooses, rounded or truncated, plus the
// post-operations'.
#ifndef WAVES
  #define WAVES 2
#endif
#ifndef EACH
  #define EACH 4
#endif
#include "matrix_convolution.clh"
#include "pixel_window.clh"
#include "amd_matrix.clh"

#define ITEMS (LANES * WAVES * WAVES)
#define TILE (16 * EACH * WAVES)
// Chunks of 16 bytes of a row in local memory, and from one row to the next: one more, so that rows lie in different banks.
#define CHUNKS 4
#define PITCH (CHUNKS + 1)
#define LOADS (TILE * CHUNKS / ITEMS)
#define SUM_COUNT (256 / LANES)
#if WORDS == 8
  #define SUM_ROW(i) (2 * (i) + lane / 16)
  #define LOAD_FRAGMENT(p) (uint8)((p)[0], (p)[1])
#else
  #define SUM_ROW(i) (SUM_COUNT * (lane / 16) + (i))
  #define LOAD_FRAGMENT(p) *(__local const FRAGMENT*)((__local const uint*)(p) + lane / 16 * WORDS)
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void convolution_amd(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table, __global const int* taps,
    POST_PARAMETERS) {
  __local uint4 rows[TILE * PITCH], columns[TILE * PITCH];
  __global const int* x = table + VIEW;
  __global const int* rest = x + VIEW;
  const int blocks = rest[0] / 8, outputs = rest[1], height = rest[4], width = rest[5], units = rest[2] * blocks;
  const int pixels = rest[3] * height * width, id = get_local_id(0), lane = id % LANES, wave = id / LANES;
  const int p0 = get_group_id(1) * TILE, o0 = get_group_id(0) * TILE, group = get_group_id(2);
  __global const T* source = BASE_OF(const T, in0) + x[0] + group * rest[0];
  __global const T* weights = BASE_OF(const T, in1) + (long)(group * outputs + o0) * units * 8;

  // This work-item copies chunk `chunk` of rows and columns `first`, `first` + ITEMS / CHUNKS ...: where their windows start.
  const int first = id / CHUNKS, chunk = id % CHUNKS;
  int top[LOADS], left[LOADS], base[LOADS];
#pragma unroll
  for (int i = 0; i < LOADS; i++)
    pixel_window(p0 + first + i * (ITEMS / CHUNKS), pixels, x, rest, top + i, left + i, base + i);
  int unit = chunk, tap = unit / blocks, block = unit % blocks;
  const int more_taps = CHUNKS / blocks, more_blocks = CHUNKS % blocks;
  uint4 next_rows[LOADS], next_columns[LOADS];

#define FETCH                                                                                                         \
  do {                                                                                                                \
    __global const int* t = taps + 3 * min(tap, rest[2] - 1);                                                         \
    _Pragma("unroll") for (int i = 0; i < LOADS; i++) {                                                               \
      const int in_x = unit < units && (uint)(top[i] + t[1]) < (uint)rest[6] && (uint)(left[i] + t[2]) < (uint)rest[7]; \
      const int in_w = unit < units && o0 + first + i * (ITEMS / CHUNKS) < outputs;                                   \
      const long at = ((long)(first + i * (ITEMS / CHUNKS)) * units + unit) * 8;                                      \
      next_rows[i] = in_x ? *(__global const uint4*)(source + base[i] + t[0] + block * 8) : (uint4)(0);               \
      next_columns[i] = in_w ? *(__global const uint4*)(weights + at) : (uint4)(0);                                   \
    }                                                                                                                 \
    unit += CHUNKS;                                                                                                   \
    tap += more_taps;                                                                                                 \
    block += more_blocks;                                                                                             \
    if (block >= blocks) {                                                                                            \
      block -= blocks;                                                                                                \
      tap++;                                                                                                          \
    }                                                                                                                 \
  } while (0)

  SUMS sums[EACH * EACH];
#pragma unroll
  for (int i = 0; i < EACH * EACH; i++) sums[i] = (SUMS)(0.0f);
  const int row = wave / WAVES * 16 * EACH + lane % 16, column = wave % WAVES * 16 * EACH + lane % 16;

  FETCH;
  for (int k = 0; k < units; k += CHUNKS) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      rows[(first + i * (ITEMS / CHUNKS)) * PITCH + chunk] = next_rows[i];
      columns[(first + i * (ITEMS / CHUNKS)) * PITCH + chunk] = next_columns[i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k + CHUNKS < units) FETCH;
#pragma unroll
    for (int c = 0; c < CHUNKS; c += 2) {
      FRAGMENT a[EACH];
#pragma unroll
      for (int i = 0; i < EACH; i++)
        a[i] = LOAD_FRAGMENT(rows + (row + 16 * i) * PITCH + c);
#pragma unroll
      for (int j = 0; j < EACH; j++) {
        const FRAGMENT b = LOAD_FRAGMENT(columns + (column + 16 * j) * PITCH + c);
#pragma unroll
        for (int i = 0; i < EACH; i++) sums[EACH * i + j] = MULTIPLY(a[i], b, sums[EACH * i + j]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  // One after the other through the same text, the next always the first: sums stay in registers.
#pragma unroll 1
  for (int n = 0; n < EACH * EACH; n++) {
    const int p = p0 + row - lane % 16 + n / EACH * 16, o = o0 + column + n % EACH * 16;
    SUMS left_over = sums[0];
#pragma unroll
    for (int i = 1; i < EACH * EACH; i++) sums[i - 1] = sums[i];
#pragma unroll 1
    for (int r = 0; r < SUM_COUNT; r++) {
      if (p + SUM_ROW(r) < pixels && o < outputs)
        convolution_write(left_over.s0, p + SUM_ROW(r), o, group, table, PASS(in2), PASS(out0), PASS_POSTS);
      left_over = ROTATED(left_over);
    }
  }
}
