"""The tables, with the numbers that the paper prints."""

from ardm.apps.report.paper.entries import Row, Table
from ardm.apps.report.paper.runs import DIFFUSION_STEPS, IMAGE_BUDGETS, SOUND_BUDGETS, TEXT_BUDGETS

ELSEWHERE = "a model of other authors"

TEXT8 = Table(
    name="text8",
    title="Order-agnostic text",
    unit="bits/char",
    caption=(
        "text8 in items of 250 characters (the paper's Table 1). The causal Transformer knows "
        "one order alone; the paper's had dropout, which ours has not."
    ),
    rows=(
        Row(method="OA-Transformer", calls="250", paper="1.64", of="text8-permuted/bits"),
        Row(method="D3PM-uniform", calls="1000", paper="1.61 ± 0.020", of="text8-d3pm-uniform/bits"),
        Row(method="D3PM-absorbing", calls="1000", paper="1.45 ± 0.020", of="text8-d3pm-absorbing/d3pm-1000"),
        Row(method="D3PM-absorbing", calls="256", paper="1.47", of="text8-d3pm-absorbing/d3pm-256"),
        Row(method="OA-ARDM", calls="250", paper="1.43 ± 0.001", of="text8-oa/bits"),
        Row(method="D3PM-absorbing", calls="20", paper="1.56 ± 0.040", of="text8-d3pm-absorbing/d3pm-20"),
        Row(method="Parallelized OA-ARDM", calls="20", paper="1.51 ± 0.007", of="text8-oa/calls-20"),
        Row(method="Transformer, causal", calls="250", paper="1.35", of="text8-causal/bits"),
    ),
)

TEXT8_LIMIT = Table(
    name="text8-limit",
    title="Text: the limit of many diffusion steps",
    unit="bits/char",
    caption=(
        "One set of weights, the OA-ARDM's, scored as an absorbing D3PM with more and more steps: its bound approaches "
        "the ARDM's, which is its limit in continuous time (the paper's appendix, which has no numbers)."
    ),
    rows=(
        *(Row(method="as an absorbing D3PM", calls=f"{T}", of=f"text8-oa/d3pm-{T}") for T in DIFFUSION_STEPS),
        Row(method="as an ARDM, planned schedule", calls="20", of="text8-oa/calls-20"),
        Row(method="as an ARDM", calls="250", of="text8-oa/bits"),
    ),
)

TEXT8_CALLS = Table(
    name="text8-calls",
    title="Text: calls against bits",
    unit="bits/char",
    caption="The same weights with planned schedules in random orders.",
    rows=(
        Row(method="OA-ARDM", calls="250", paper="1.43 ± 0.001", of="text8-oa/bits"),
        *(
            Row(
                method="OA-ARDM, planned",
                calls=f"{budget}",
                paper="1.51 ± 0.007" if budget == 20 else "",
                of=f"text8-oa/calls-{budget}",
            )
            for budget in TEXT_BUDGETS
        ),
    ),
)

CIFAR10 = Table(
    name="cifar10",
    title="Order-agnostic images",
    unit="bits/dim",
    caption=(
        "CIFAR-10 (the paper's Table 2). Our absorbing D3PM is the OA-ARDM's weights scored as one. The Gaussian D3PM "
        "that the paper quotes has a logistic output and a cross-entropy term; its authors give 3.97 without the "
        "former, which is what ours is. Rows with few calls are of fewer test images (below); compare them in the "
        "table of calls. 4 x 50 calls are an even share for each stage in the paper; ours plans 200 over all stages."
    ),
    rows=(
        Row(method="ARDM-OA", calls="3072", paper="2.69 ± 0.005", of="cifar10-oa/bits"),
        Row(method="Parallel ARDM-OA", calls="50", paper="2.74", of="cifar10-oa/calls-50"),
        Row(method="ARDM-Upscale 4", calls="4 x 3072", paper="2.64 ± 0.002", of="cifar10-upscale4/bits"),
        Row(method="Parallel ARDM-Upscale 4", calls="4 x 50", paper="2.68", of="cifar10-upscale4/calls-50"),
        Row(method="D3PM Absorbing", calls="1000", paper="4.40", of="cifar10-oa/d3pm-1000"),
        Row(method="D3PM Gaussian", calls="1000", paper="3.44 ± 0.007", of="cifar10-d3pm-gaussian/bits"),
    ),
)

CIFAR10_CALLS = Table(
    name="cifar10-calls",
    title="Images: calls against bits",
    unit="bits/dim",
    caption=(
        "The same weights and the same test images, few of them, with planned schedules in random orders; calls of the "
        "upscale model are planned over all stages together."
    ),
    rows=(
        Row(method="ARDM-OA", calls="3072", paper="2.69 ± 0.005", of="cifar10-oa/few"),
        *(
            Row(
                method="ARDM-OA, planned",
                calls=f"{budget}",
                paper="2.74" if budget == 50 else "",
                of=f"cifar10-oa/calls-{budget}",
            )
            for budget in IMAGE_BUDGETS
        ),
        Row(method="ARDM-Upscale 4", calls="4 x 3072", paper="2.64 ± 0.002", of="cifar10-upscale4/few"),
        *(
            Row(
                method="ARDM-Upscale 4, planned",
                calls=f"4 x {budget}",
                paper="2.68" if budget == 50 else "",
                of=f"cifar10-upscale4/calls-{budget}",
            )
            for budget in IMAGE_BUDGETS
        ),
    ),
)


def _coded(method: str, codec: str, calls: str = "", paper: str = "", run: str = "box-images") -> Row:
    return Row(method=method, calls=calls, paper=paper, of=f"{run}/codec", codec=codec)


CIFAR10_COMPRESSION = Table(
    name="cifar10-compression",
    title="Lossless compression of images",
    unit="bits/dim",
    caption=(
        "CIFAR-10, a file for each image (the paper's Table 3; in brackets with all images in one file, where that "
        "differs). Ours are of our own network, as the paper's has no exact form: the upscale model of the box "
        "(images), the same at every scale, and an OA-ARDM made exact (at minutes scale trained as the run cifar10-oa "
        "is); whole files with header and check, restored and compared."
    ),
    rows=(
        Row(method="VDM", calls="1000", paper="≥ 8 (2.72)", absent=ELSEWHERE),
        Row(method="VDM", calls="500", paper="≥ 8 (2.72)", absent=ELSEWHERE),
        _coded("OA-ARDM", "ardm, 500 calls", "500", "2.73", run="cifar10-oa-exact"),
        _coded("ARDM-Upscale 4", "ardm, 500 calls", "500", "2.71"),
        Row(method="VDM", calls="100", paper="≥ 8 (2.91)", absent=ELSEWHERE),
        _coded("OA-ARDM", "ardm, 100 calls", "100", "2.75", run="cifar10-oa-exact"),
        _coded("ARDM-Upscale 4", "ardm, 100 calls", "100", "2.76"),
        _coded("ARDM-Upscale 4", "ardm, 40 calls", "40"),
        Row(method="LBB", paper="≥ 8 (3.12)", absent=ELSEWHERE),
        Row(method="IDF", paper="3.34", absent=ELSEWHERE),
        Row(method="IDF++", paper="3.26", absent=ELSEWHERE),
        Row(method="HiLLoC", paper="4.19 (3.56)", absent=ELSEWHERE),
        _coded("FLIF", "FLIF", paper="4.19"),
        _coded("JPEG XL", "JPEG XL"),
        _coded("WebP", "WebP"),
        _coded("PNG", "PNG"),
    ),
)

CIFAR10_DEPTH = Table(
    name="cifar10-depth",
    title="Depth upscaling of images",
    unit="bits/dim",
    caption=(
        "CIFAR-10, D = 3072 (the paper's Table 5, whose upscale models have the data parametrization; ours have it at "
        "the paper's scale, and the direct one at minutes scale)."
    ),
    rows=(
        Row(method="OA-ARDM", calls="D", paper="2.69", of="cifar10-oa/bits"),
        Row(method="ARDM Upscale 16", calls="2 x D", paper="2.67", of="cifar10-upscale16/bits"),
        Row(method="ARDM Upscale 4", calls="4 x D", paper="2.64", of="cifar10-upscale4/bits"),
        Row(method="ARDM Upscale 2", calls="8 x D", paper="2.67", of="cifar10-upscale2/bits"),
    ),
)

SC09_DEPTH = Table(
    name="sc09-depth",
    title="Depth upscaling of sound",
    unit="bits/sample",
    caption=(
        "SC09, D = 16000 (the paper's Table 4). The OA-ARDM predicts mixtures of discretized logistics: with means on "
        "a linear scale and scales clipped as in the authors' code, which costs bits; without the clip; and with means "
        "on a logarithmic scale, as ours do by default. The WaveNet knows one order alone."
    ),
    rows=(
        Row(method="OA-ARDM, scales clipped", calls="D", paper="7.93", of="sc09-oa-clipped/bits"),
        Row(method="OA-ARDM, linear means", calls="D", of="sc09-oa-linear/bits"),
        Row(method="OA-ARDM, companded means", calls="D", of="sc09-oa/bits"),
        Row(method="ARDM Upscale 256", calls="2 x D", paper="6.36", of="sc09-upscale256/bits"),
        Row(method="ARDM Upscale 16", calls="4 x D", paper="6.30", of="sc09-upscale16/bits"),
        Row(method="ARDM Upscale 4", calls="8 x D", paper="6.29", of="sc09-upscale4/bits"),
        Row(method="ARDM Upscale 2", calls="16 x D", paper="6.29", of="sc09-upscale2/bits"),
        Row(method="WaveNet, causal", calls="D", paper="7.77", of="sc09-wavenet/bits"),
    ),
)

SC09_PRINTED = {1000: "6.30", 500: "6.30", 100: "6.32", 50: "6.32"}
SC09_CALLS = Table(
    name="sc09-calls",
    title="Sound: calls against bits",
    unit="bits/sample",
    caption=(
        "SC09 with fewer calls (the paper's Table 7), planned over all stages together. Ours are of a few test clips, "
        "which differ much: compare within the column."
    ),
    rows=(
        Row(method="ARDM Upscale 4", calls="8 x 16000", paper="6.29", of="sc09-upscale4/few"),
        *(
            Row(
                method="ARDM Upscale 4, planned",
                calls=f"8 x {budget}",
                paper=SC09_PRINTED[budget],
                of=f"sc09-upscale4/calls-{budget}",
            )
            for budget in SOUND_BUDGETS
        ),
    ),
)

CIFAR10_LITERATURE = Table(
    name="cifar10-literature",
    title="Images beside other models",
    unit="bits/dim",
    caption="CIFAR-10 (the paper's Table 6).",
    rows=(
        Row(method="ARDM-OA (discrete diffusion and ARM)", paper="2.69", of="cifar10-oa/bits"),
        Row(method="ARDM-Upscale 4 (discrete diffusion and ARM)", paper="2.64", of="cifar10-upscale4/bits"),
        Row(method="D3PM Gaussian (discrete diffusion)", paper="3.44", of="cifar10-d3pm-gaussian/bits"),
        Row(method="DDPM (diffusion)", paper="3.69", absent=ELSEWHERE),
        Row(method="Improved DDPM (diffusion)", paper="2.94", absent=ELSEWHERE),
        Row(method="VDM (diffusion)", paper="2.49", absent=ELSEWHERE),
        Row(method="PixelCNN++ (ARM)", paper="2.92", absent=ELSEWHERE),
        Row(method="SPN (ARM)", paper="2.90", absent=ELSEWHERE),
        Row(method="Sparse Transformer (ARM)", paper="2.52", absent=ELSEWHERE),
        Row(method="NVAE (VAE)", paper="2.91", absent=ELSEWHERE),
        Row(method="Very Deep VAE (VAE)", paper="2.87", absent=ELSEWHERE),
        Row(method="CR-VAE (VAE)", paper="2.52", absent=ELSEWHERE),
    ),
)

TABLES = (
    TEXT8,
    TEXT8_LIMIT,
    TEXT8_CALLS,
    CIFAR10,
    CIFAR10_DEPTH,
    CIFAR10_CALLS,
    CIFAR10_COMPRESSION,
    CIFAR10_LITERATURE,
    SC09_DEPTH,
    SC09_CALLS,
)
