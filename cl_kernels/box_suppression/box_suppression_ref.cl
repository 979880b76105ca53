// Boxes kept, best first, that none of those kept before overlaps: for each image and class a line of their places, -1 behind
// the last. A box counts whose score is above `least`; two overlap whose shared area is more than `overlap` of the union's.
//
// boxes [N][B][4] (two opposite corners, or centre and sides where CENTERED), scores [N][C][B], limit (long), overlap and
// least: one element each; places [N][C][K] (int).
// Grid: one work-item an image and class, n = N * C of them. RANK = 3. table: views of boxes, scores and places, origins of
// limit, overlap and least, C, B, K.
// scratch0: for each work-item a heap of B keys, then the corners and areas of those kept, a row of ROOM(K) floats each.
// Exact: compared are the floats that the reference compares, hence no contraction.
#define RANK 3
#include "tensor.clh"
#pragma OPENCL FP_CONTRACT OFF

#define CENTERED (table[18])
// Whole vectors of those kept.
#define ROOM(k) (((k) + 15) / 16 * 16)

typedef struct {
  float low0, high0, low1, high1, area;
} box;

// The box p[0], p[step], ...; one with a NaN shares nothing with any.
static box box_of(__global const float* p, const int step, const int centered) {
  const float a = p[0], b = p[step], c = p[2 * step], d = p[3 * step];
  if (a != a || b != b || c != c || d != d) return (box){INFINITY, -INFINITY, INFINITY, -INFINITY, 0.0f};
  box made;
  if (centered)
    made = (box){a - c / 2, a + c / 2, b - d / 2, b + d / 2, 0.0f};
  else
    made = (box){fmin(a, c), fmax(a, c), fmin(b, d), fmax(b, d), 0.0f};
  made.area = (made.high0 - made.low0) * (made.high1 - made.low1);
  return made;
}

// Ascending with the score, and where scores are equal descending with the place.
static ulong key_of(const float score, const int place) {
  const int bits = as_int(score + 0.0f);
  return (ulong)(uint)(bits ^ (bits >> 31 | INT_MIN)) << 32 | (uint)~place;
}

// Puts `key` where it belongs below `at` in a heap of `count`, the greatest in front.
static void sift(__global ulong* heap, const int count, int at, const ulong key) {
  for (int child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
    child += child + 1 < count && heap[child + 1] > heap[child];
    if (heap[child] < key) break;
    heap[at] = heap[child];
  }
  heap[at] = key;
}

// Whether `own` overlaps one of the first `kept` boxes of rows of `room`; those up to the next whole vector share nothing.
static int is_covered(const box own, __global const float* rows, const int kept, const int room, const float overlap) {
  for (int i = 0; i < kept; i += 16) {
    __global const float* at = rows + i;
    const float16 low0 = vload16(0, at), high0 = vload16(0, at + room), low1 = vload16(0, at + 2 * room);
    const float16 high1 = vload16(0, at + 3 * room), area = vload16(0, at + 4 * room);
    const float16 side0 = fmax(fmin(high0, own.high0) - fmax(low0, own.low0), 0.0f);
    const float16 side1 = fmax(fmin(high1, own.high1) - fmax(low1, own.low1), 0.0f);
    const float16 shared = side0 * side1, whole = (area + own.area - shared) * overlap;
    if (any(shared > 0.0f && shared > whole)) return 1;
  }
  return 0;
}

__kernel void box_suppression_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(in4), TENSOR(out0),
                                  TENSOR(scratch0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int classes = table[15], count = table[16], most = table[17], room = ROOM(most);
  const int at[RANK] = {id / classes, id % classes, 0};
  const int boxes_at[RANK] = {at[0], 0, 0};
  __global const float* boxes = BASE_OF(const float, in0) + element(table, boxes_at);
  __global const float* scores = BASE_OF(const float, in1) + element(table + VIEW, at);
  __global int* places = BASE_OF(int, out0) + element(table + 2 * VIEW, at);
  const long limit = BASE_OF(const long, in2)[table[12]];
  const float overlap = BASE_OF(const float, in3)[table[13]], least = BASE_OF(const float, in4)[table[14]];
  const long bytes = 8l * count + 20l * room;
  __global ulong* heap = BASE_OF(ulong, scratch0) + id * (bytes / 8);
  __global float* rows = (__global float*)(heap + count);

  int left = 0;
  for (int i = 0; i < count; i++) {
    const float score = scores[i * table[7]];
    if (score > least) heap[left++] = key_of(score, i);
  }
  for (int i = left / 2 - 1; i >= 0; i--) sift(heap, left, i, heap[i]);
  int kept = 0;
  const int wanted = (int)clamp(limit, 0l, (long)most);
  while (kept < wanted && left > 0) {
    const int place = (int)~(uint)heap[0];
    sift(heap, left - 1, 0, heap[left - 1]);
    left--;
    const box own = box_of(boxes + place * table[2], table[3], CENTERED);
    if (is_covered(own, rows, kept, room, overlap)) continue;
    if (kept % 16 == 0) {
      const float16 none = INFINITY;
      vstore16(none, 0, rows + kept);
      vstore16(-none, 0, rows + room + kept);
      vstore16(none, 0, rows + 2 * room + kept);
      vstore16(-none, 0, rows + 3 * room + kept);
      vstore16(0.0f, 0, rows + 4 * room + kept);
    }
    rows[kept] = own.low0, rows[room + kept] = own.high0, rows[2 * room + kept] = own.low1;
    rows[3 * room + kept] = own.high1, rows[4 * room + kept] = own.area;
    places[kept++ * table[11]] = place;
  }
  for (; kept < most; kept++) places[kept * table[11]] = -1;
}
