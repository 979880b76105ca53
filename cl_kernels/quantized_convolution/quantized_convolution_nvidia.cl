// Convolution of 8-bit integers with groups, scaled, with bias and post-operations, for NVIDIA GPUs on byxf.
//
// x [N, C, H, W] and y [N, O, H, W] in byxf, x and w [O][kh][kw][C / groups] of char; start (int), scale and bias (float)
// [O]. y = (start + sum x w) * scale + bias; where a window leaves x, it reads a zero point, which `edge` holds 16 times.
// An implicit matrix product: its rows are the pixels of all images, its columns the outputs of a group, its k the taps
// times the channels. C of a group is a multiple of 16, O of a group of 4. RANK = 5: n, y, x, block, channel.
// Grid: (tiles * TILE_ITEMS, parts of k, groups), groups of TILE_ITEMS; a group makes TILE_ROWS pixels of TILE_COLUMNS outputs
// from its part of k. Where there are several parts (PARTS, default 0), the sums go to `parts` [part][n][y][x][O], for
// quantized_convolution_sum; else y is written.
// table: views of y and x, channels and outputs of a group, taps, images, height and width of y, height and width of x,
// strides, pads before; taps: offset in x and place along y and x of each.
// T, OUT  as of quantized_end.clh
// Error: 2^-24 |sum * scale| + 2^-24 |y|, plus the post-operations'. The sum is exact.
#define RANK 5
#ifndef PRODUCT
  #define PRODUCT PRODUCT_S8
#endif
#include "quantized_end.clh"
#include "ptx.clh"
#include "nvidia_tile.clh"

#define NOWHERE (-0x40000000)

__kernel __attribute__((reqd_work_group_size(TILE_ITEMS, 1, 1))) void quantized_convolution_nvidia(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(in4), TENSOR(out0), TENSOR(parts),
    __global const int* table, __global const int* taps, __global const int* edge, POST_PARAMETERS) {
  __local __attribute__((aligned(128))) char memory[TILE_LOCAL];
  __global const int* y = table;
  __global const int* x = y + VIEW;
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
  __global const char* source = BASE_OF(const char, in0) + x[0] + group * rest[0];
  __global const uint4* weights = BASE_OF(const uint4, in1) + ((long)group * outputs + o0 + row) * units;
  __global const char* outside = (__global const char*)edge;
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

// Reads the tap, a step before it is used; behind the last one nothing is inside of x. What is not inside is `edge`: zeros of
// w meet it behind the last term, and rows beyond the last pixel are not written.
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
      COPY16(address + DOWN(i * TILE_STRIDE), inside ? source + (base[i] + from) : outside, 16);                    \
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
  TILE_PIPELINE(sums, memory, steps, warp, lane);

  const int all = outputs * (int)get_num_groups(2);
  __local int* slab = (__local int*)memory;
#pragma unroll 1
  for (int i = 0; i < TILE_SLABS; i++) {
    tile_lay_down(sums, slab, warp, lane);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
    for (int v = id; v < SLAB_ROWS * TILE_COLUMNS / 4; v += TILE_ITEMS) {
      const int s = v / (TILE_COLUMNS / 4), o = o0 + v % (TILE_COLUMNS / 4) * 4;
      const int p = p0 + s / 16 * WARP_ROWS + 16 * i + s % 16, channel = group * outputs + o;
      if (p >= pixels || o >= outputs) continue;
      const int4 sum = *(__local const int4*)(slab + s * TILE_PITCH + v % (TILE_COLUMNS / 4) * 4);
      if (PARTS) {
        *(BASE_OF(int4, parts) + (((long)part * pixels + p) * all + channel) / 4) = sum;
        continue;
      }
      const int at[RANK] = {p / (height * width), p / width % height, p % width, channel / 4, 0};
      const float4 r = quantized_scaled(sum, BASE_OF(const int, in2), BASE_OF(const float, in3),
                                        BASE_OF(const float, in4), channel);
      STORE_OUT4(BASE_OF(OUT, out0), element(y, at), POST_ALL(r, at));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
