// Convolution with groups, bias and post-operations for NVIDIA GPUs on byxf: an implicit matrix product.
//
// x [N, C, H, W] and y [N, O, H, W] in byxf, w [O][kh][kw][C / groups], bias [O] or none; half or float, as PRODUCT of
// nvidia_tile.clh wants. The rows of the product are the pixels of all images, its columns the outputs of a group, its k
// the taps times the channels. C of a group is a multiple of CHUNK, O of a group of 4. RANK = 5: n, y, x, block, channel.
// Grid: (tiles * TILE_ITEMS, parts of k, groups), groups of TILE_ITEMS; a group makes TILE_ROWS pixels of TILE_COLUMNS outputs
// from its part of k. Where there are several parts (PARTS, default 0), the sums go to `parts` [part][n][y][x][O], for
// matmul_gpu_sum; else y is written.
// table: views of y and x, channels and outputs of a group, taps, images, height and width of y, height and width of x,
// strides, pads before, bias offset (-1: none) and pitch; taps: offset in x and place along y and x of each.
// Error: that of PRODUCT for n = taps * C / groups terms, plus the post-operations'.
#define RANK 5
#include "halves.clh"
#include "vectors.clh"
#include "ptx.clh"
#include "nvidia_convolution.clh"

#define NOWHERE (-0x40000000)

__kernel __attribute__((reqd_work_group_size(TILE_ITEMS, 1, 1))) void convolution_nvidia(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), TENSOR(parts), TENSOR(largest), __global const int* table,
    __global const int* taps, POST_PARAMETERS) {
  __local __attribute__((aligned(128))) char memory[TILE_LOCAL];
  __global const int* x = table + VIEW;
  __global const int* rest = x + VIEW;
  const int blocks = rest[0] / CHUNK, outputs = rest[1], height = rest[4], width = rest[5];
  const int units = rest[2] * blocks, pixels = rest[3] * height * width;
  const int id = get_local_id(0), warp = id / 32, lane = id % 32, group = get_group_id(2);
  int tile_m, tile_n;
  tile_numbers(get_group_id(0), (pixels + TILE_ROWS - 1) / TILE_ROWS, (outputs + TILE_COLUMNS - 1) / TILE_COLUMNS, &tile_m,
               &tile_n);
  const int p0 = tile_m * TILE_ROWS, o0 = tile_n * TILE_COLUMNS;

  // The steps of this part, and what this work-item copies: chunk `id % CHUNKS` of every TILE_STRIDE-th row.
  const int steps_of_all = (units + CHUNKS - 1) / CHUNKS, part = get_group_id(1), parts_count = get_num_groups(1);
  const int first = (int)((long)steps_of_all * part / parts_count);
  const int steps = (int)((long)steps_of_all * (part + 1) / parts_count) - first;
  const int row = id / CHUNKS, chunk = id % CHUNKS, place = PLACE(row, chunk);
  const int taps_count = rest[2], rows_of_x = rest[6], columns_of_x = rest[7], weights_step = TILE_STRIDE * units;
  __global const T* source = BASE_OF(const T, in0) + x[0] + group * rest[0];
  __global const uint4* weights = BASE_OF(const uint4, in1) + ((long)group * outputs + o0 + row) * units;
  int top[ROWS_EACH], left[ROWS_EACH], base[ROWS_EACH];
#pragma unroll
  for (int i = 0; i < ROWS_EACH; i++) {
    const int p = p0 + row + i * TILE_STRIDE, n = p / (height * width), at = p % (height * width);
    top[i] = at / width * rest[8] - rest[10];
    left[i] = at % width * rest[9] - rest[11];
    base[i] = n * x[1] + top[i] * x[2] + left[i] * x[3];
    top[i] = p < pixels ? top[i] : NOWHERE;
  }
  uint columns = 0;
#pragma unroll
  for (int i = 0; i < COLUMNS_EACH; i++) columns |= (o0 + row + i * TILE_STRIDE < outputs) << i;
  int unit = first * CHUNKS + chunk, tap = unit / blocks, block = unit % blocks, offset, down, right;
  const int more_taps = CHUNKS / blocks, more_blocks = CHUNKS % blocks;

// Reads the tap; behind the last one nothing is inside of x. A tap is read a step before it is used, and the sizes are in
// registers by now: reading instructions name memory, so that the compiler would read tables again in each step.
#define READ_TAP()                                                   \
  do {                                                               \
    __global const int* t = taps + (tap < taps_count ? 3 * tap : 0); \
    offset = t[0];                                                   \
    down = tap < taps_count ? t[1] : NOWHERE;                        \
    right = t[2];                                                    \
  } while (0)
#define TILE_LOAD(stage)                                                                                            \
  do {                                                                                                              \
    const uint address = SHARED(stage) + place, there = unit < units ? columns : 0;                                 \
    const int from = offset + block * CHUNK;                                                                        \
    _Pragma("unroll") for (int i = 0; i < ROWS_EACH; i++) {                                                         \
      const int inside = (uint)(top[i] + down) < (uint)rows_of_x & (uint)(left[i] + right) < (uint)columns_of_x;    \
      COPY16(address + DOWN(i * TILE_STRIDE), source + (base[i] + from), inside ? 16 : 0);                          \
    }                                                                                                               \
    _Pragma("unroll") for (int i = 0; i < COLUMNS_EACH; i++)                                                        \
      COPY16(address + TILE_B + DOWN(i * TILE_STRIDE), weights + (unit + i * weights_step), there >> i & 1 ? 16 : 0); \
    unit += CHUNKS;                                                                                                 \
    tap += more_taps;                                                                                               \
    block += more_blocks;                                                                                           \
    if (block >= blocks) {                                                                                          \
      block -= blocks;                                                                                              \
      tap++;                                                                                                        \
    }                                                                                                               \
    READ_TAP();                                                                                                     \
  } while (0)

  READ_TAP();
  tile_sums sums;
  tile_clear(sums);
  TILE_SCALES(largest, lane)
  TILE_PIPELINE(sums, memory, steps, warp, lane);

  convolution_write(sums, memory, p0, o0, part, table, PASS(in2), PASS(out0), PASS(parts), PASS_POSTS);
}
