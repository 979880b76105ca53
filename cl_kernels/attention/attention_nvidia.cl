// Attention on halves for NVIDIA GPUs, in one pass over the keys: y = softmax(scale * q k + bias) v; scale > 0.
//
// q [..., M, D], k [..., N, D], v [..., N, E], y [..., M, E], D and E innermost and multiples of 8; bias in any view on
// [..., M, N], or none: a mask, of a causal form too, is a bias with -infinity.
// DEPTH and WIDTH are D and E rounded up to 16 (default 64), at most 128; KEYS (default 64) at a time, 16 TILES (default 2) queries
// a warp, four warps.
// Grid: (tiles of queries * 128, 1, batch), groups of 128; a group makes 64 TILES queries.
// table: dims (batch axes, M, E), views of y, q, k, v and bias (k and v: 0 along M; k and q: 0 along E), N, D, pitches of k and v
// from one key to the next, pitch of the bias along N, whether there is one.
// Error in units of 2^-24, m = softmax |v|: 2^13 m, because the weights are rounded to halves, and for each tile of keys 20 m, on
// top of D sum |q k| scale m in the exponents and the post-operations'.
#ifndef DEPTH
  #define DEPTH 64
#endif
#ifndef WIDTH
  #define WIDTH 64
#endif
#ifndef KEYS
  #define KEYS 64
#endif
#ifndef TILES
  #define TILES 2
#endif
#include "halves.clh"
#include "vectors.clh"
#include "ptx.clh"
#include "ptx_75.clh"

#define ITEMS 128
#define QUERIES (64 * TILES)
#define DEPTH_CHUNKS (DEPTH / 8)
#define WIDTH_CHUNKS (WIDTH / 8)
// Eight rows' chunks of one place lie in different banks: exchanged, or in rows of an odd number of chunks. Rows 8 n further
// down are DOWN(8 n) behind; ALONG is the place of chunk c ^ d from that of c.
#define ROW_CHUNKS(chunks) ((chunks) % 8 ? (chunks) + 1 : (chunks))
#define PLACE(row, chunk, chunks) (((row) * ROW_CHUNKS(chunks) + ((chunks) % 8 ? (chunk) : (chunk) ^ ((row) & 7))) * 16)
#define DOWN(rows, chunks) ((rows) * ROW_CHUNKS(chunks) * 16)
#define ALONG(place, d, chunks) ((chunks) % 8 ? (place) + 16 * (d) : (place) ^ 16 * (d))
#define KEYS_AT (QUERIES * ROW_CHUNKS(DEPTH_CHUNKS) * 16)
#define VALUES_AT (KEYS * ROW_CHUNKS(DEPTH_CHUNKS) * 16)
#define STAGE (VALUES_AT + KEYS * ROW_CHUNKS(WIDTH_CHUNKS) * 16)
#define SLAB_PITCH (WIDTH + 8)
#define MOST(a, b) ((a) > (b) ? (a) : (b))

// Copies `count` rows from row `first` on, those from row `rows` and chunk `there` on zero; `pitch` in chunks.
static void copy_rows(const uint to, __global const uint4* from, const int first, const int rows, const int count,
                      const int pitch, const int there, const int chunks, const uint id) {
#pragma unroll
  for (int n = 0; n < (count * chunks + ITEMS - 1) / ITEMS; n++) {
    const uint c = n * ITEMS + id, row = c / chunks, chunk = c % chunks;
    if (c < count * chunks)
      COPY16(to + PLACE(row, chunk, chunks), from + (long)(first + (int)row) * pitch + chunk,
             first + (int)row < rows & (int)chunk < there ? 16 : 0);
  }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attention_nvidia(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(out0), __global const int* table, const float scale,
    POST_PARAMETERS) {
  __local __attribute__((aligned(256))) char memory[MOST(KEYS_AT + 2 * STAGE, 64 * SLAB_PITCH * 4)];
  __global const int* y = table + RANK;
  __global const int* q = y + VIEW;
  __global const int* k = q + VIEW;
  __global const int* v = k + VIEW;
  __global const int* bias = v + VIEW;
  __global const int* rest = bias + VIEW;
  // In registers: reading instructions name memory, so that the compiler would read tables again in each step.
  const int all_queries = table[RANK - 2], length = table[RANK - 1], all_keys = rest[0], depth = rest[1] / 8;
  const int key_pitch = rest[2] / 8, value_pitch = rest[3] / 8, bias_pitch = rest[4], has_bias = rest[5];
  const int bias_step = bias[RANK - 1];
  const int id = get_local_id(0), warp = id / 32, lane = id % 32, q0 = get_group_id(0) * QUERIES;
  const uint local_memory = SHARED(memory);
  int at[RANK];
  coordinates(get_group_id(2), table, 0, RANK - 2, at);
  at[RANK - 2] = at[RANK - 1] = 0;
  __global const uint4* queries = (__global const uint4*)(BASE_OF(const T, in0) + element(q, at));
  __global const uint4* keys = (__global const uint4*)(BASE_OF(const T, in1) + element(k, at));
  __global const uint4* values = (__global const uint4*)(BASE_OF(const T, in2) + element(v, at));
  __global const T* biases = BASE_OF(const T, in3) + element(bias, at);

#define LOAD_KEYS(t)                                                                                                     \
  copy_rows(local_memory + KEYS_AT + (t) % 2 * STAGE, keys, (t) * KEYS, all_keys, KEYS, key_pitch, depth, DEPTH_CHUNKS, id); \
  copy_rows(local_memory + KEYS_AT + (t) % 2 * STAGE + VALUES_AT, values, (t) * KEYS, all_keys, KEYS, value_pitch,           \
            length / 8, WIDTH_CHUNKS, id)
// Where the bias of a score lies, along the keys.
#define ALONG_KEYS(j, h) (min(own + (j) * 8 + (h), all_keys - 1) * bias_pitch)
  copy_rows(local_memory, queries, q0, all_queries, QUERIES, q[RANK - 1] / 8, depth, DEPTH_CHUNKS, id);
  LOAD_KEYS(0);
  COPY_COMMIT();

  float sums[TILES][WIDTH / 8][4], most[TILES][2], total[TILES][2];
#pragma unroll
  for (int i = 0; i < TILES; i++) {
    most[i][0] = most[i][1] = -INFINITY;
    total[i][0] = total[i][1] = 0.0f;
#pragma unroll
    for (int j = 0; j < WIDTH / 8; j++) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0.0f;
  }
  // What scores are in units of: without a bias, before they are scaled.
  const float factor = has_bias ? 1.44269504f : 1.44269504f * scale;
  const uint query_at = local_memory + PLACE(warp * TILES * 16 + (lane & 15), lane >> 4, DEPTH_CHUNKS);
  const int tiles = (all_keys + KEYS - 1) / KEYS;
  for (int t = 0; t < tiles; t++) {
    COPY_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t + 1 < tiles) {
      LOAD_KEYS(t + 1);
    }
    COPY_COMMIT();
    const uint stage = local_memory + KEYS_AT + t % 2 * STAGE;
    const uint key_at = stage + PLACE((lane & 7) + (lane >> 4) * 8, (lane >> 3) & 1, DEPTH_CHUNKS);
    const uint value_at = stage + VALUES_AT + PLACE(lane & 15, lane >> 4, WIDTH_CHUNKS);
    float scores[TILES][KEYS / 8][4];
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
      for (int j = 0; j < KEYS / 8; j++) scores[i][j][0] = scores[i][j][1] = scores[i][j][2] = scores[i][j][3] = 0.0f;
#pragma unroll
    for (int d = 0; d < DEPTH / 16; d++) {
      uint mine[TILES][4];
#pragma unroll
      for (int i = 0; i < TILES; i++)
        LDMATRIX(mine[i][0], mine[i][1], mine[i][2], mine[i][3],
                 ALONG(query_at, 2 * d, DEPTH_CHUNKS) + DOWN(16 * i, DEPTH_CHUNKS));
#pragma unroll
      for (int j = 0; j < KEYS / 8; j += 2) {
        uint b[4];
        LDMATRIX(b[0], b[1], b[2], b[3], ALONG(key_at, 2 * d, DEPTH_CHUNKS) + DOWN(8 * j, DEPTH_CHUNKS));
#pragma unroll
        for (int i = 0; i < TILES; i++) {
          MMA_F16(scores[i][j], mine[i], b[0], b[1]);
          MMA_F16(scores[i][j + 1], mine[i], b[2], b[3]);
        }
      }
    }
    // Scores of keys beyond the last are -infinity, as are those that a bias hides; what is left of a row is scaled to its
    // largest so far, and to 0 where there is none. Element 2 e + h of a tile is that of row 8 e + lane / 4.
    const int own = t * KEYS + lane % 4 * 2, query = q0 + warp * TILES * 16 + lane / 4;
    if (has_bias && bias_step == 0) {
#pragma unroll
      for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const float value = LOAD(biases, ALONG_KEYS(j, h));
#pragma unroll
          for (int i = 0; i < TILES; i++) {
            scores[i][j][h] = fma(scores[i][j][h], scale, value);
            scores[i][j][h + 2] = fma(scores[i][j][h + 2], scale, value);
          }
        }
    } else if (has_bias) {
#pragma unroll
      for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const int row = min(query + i * 16 + e * 8, all_queries - 1) * bias_step;
#pragma unroll
          for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
              scores[i][j][2 * e + h] = fma(scores[i][j][2 * e + h], scale, LOAD(biases, row + ALONG_KEYS(j, h)));
        }
    }
    if (t == tiles - 1) {
#pragma unroll
      for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
          for (int e = 0; e < 4; e++)
            if (own + j * 8 + e % 2 >= all_keys) scores[i][j][e] = -INFINITY;
    }
    uint weights[TILES][KEYS / 16][4];
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float high = most[i][e];
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
          high = larger_or_nan(high, larger_or_nan(scores[i][j][2 * e], scores[i][j][2 * e + 1]));
        high = larger_or_nan(high, shuffle_xor(high, 1));
        high = larger_or_nan(high, shuffle_xor(high, 2));
        const float zero = high == -INFINITY ? 0.0f : high * factor;
        const float shrink = power_of_2(fma(most[i][e], factor, -zero));
        most[i][e] = high;
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
          const float w0 = power_of_2(fma(scores[i][j][2 * e], factor, -zero));
          const float w1 = power_of_2(fma(scores[i][j][2 * e + 1], factor, -zero));
          sum += w0 + w1;
          weights[i][j / 2][j % 2 * 2 + e] = pack_halves(w0, w1);
        }
        total[i][e] = fma(total[i][e], shrink, sum);
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j++) {
          sums[i][j][2 * e] *= shrink;
          sums[i][j][2 * e + 1] *= shrink;
        }
      }
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++)
#pragma unroll
      for (int j = 0; j < WIDTH / 8; j += 2) {
        uint b[4];
        LDMATRIX_TRANS(b[0], b[1], b[2], b[3], ALONG(value_at, j, WIDTH_CHUNKS) + DOWN(16 * n, WIDTH_CHUNKS));
#pragma unroll
        for (int i = 0; i < TILES; i++) {
          MMA_F16(sums[i][j], weights[i][n], b[0], b[1]);
          MMA_F16(sums[i][j + 1], weights[i][n], b[2], b[3]);
        }
      }
  }
  COPY_WAIT(0);
  barrier(CLK_LOCAL_MEM_FENCE);

  __local float* slab = (__local float*)memory;
#pragma unroll
  for (int i = 0; i < TILES; i++) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float sum = total[i][e];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      const float share = 1.0f / sum;
      __local float* to = slab + (warp * 16 + e * 8 + lane / 4) * SLAB_PITCH + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < WIDTH / 8; j++)
        *(__local float2*)(to + 8 * j) = (float2)(sums[i][j][2 * e] * share, sums[i][j][2 * e + 1] * share);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
    for (int c = id; c < 64 * (WIDTH / 4); c += ITEMS) {
      const int row = c / (WIDTH / 4);
      at[RANK - 2] = q0 + (row / 16 * TILES + i) * 16 + row % 16;
      at[RANK - 1] = c % (WIDTH / 4) * 4;
      if (at[RANK - 2] >= all_queries || at[RANK - 1] >= length) continue;
      const float4 sum = *(__local const float4*)(slab + row * SLAB_PITCH + at[RANK - 1]);
      STORE4(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
