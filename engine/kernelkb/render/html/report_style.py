"""The style sheet of the page of a report: light and dark, wide and narrow, without any file."""

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--muted:#59636e;--line:#d5dbe1;--panel:#f4f6f8;
--link:#0a58c2;--mark:#ffe9a8;--mark-fg:#493700;--heat:235 96 24;--memory:#2f6fde;--l1:#6c55d6;
--compute:#1d9a6c;--wait1:#e07b1a;--wait2:#edaa4e;--wait3:#f3cd95;--launch:#c43d5b;--fill:#a05a9c;
--other:#a3adb8}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e8ec;--muted:#9aa5b1;--line:#333b44;
--panel:#1d2228;--link:#74aeff;--mark:#4d3f12;--mark-fg:#ffe49a;--heat:240 110 40;--memory:#5b92f5;
--l1:#9582f0;--compute:#37b585;--wait1:#e88b33;--wait2:#c98a3c;--wait3:#94693a;--launch:#e2617d;
--fill:#bb78b7;--other:#6b7580}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:16px;max-width:1180px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
a{color:var(--link)}
h1{font-size:1.5em;margin:.2em 0}
h2{font-size:1.15em;margin:0 0 .4em;line-height:1.35}
h3{font-size:1em;margin:1.3em 0 .4em}
h4{font-size:.95em;margin:1em 0 .3em}
p,ul,ol{margin:.4em 0}
ul,ol{padding-left:1.3em}
code,.sass,.source,.path{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",
monospace;font-size:.86em}
.muted{color:var(--muted);font-size:.9em;font-weight:normal}
.kernel{margin:28px 0 0;padding:18px 0 0;border-top:2px solid var(--line)}
.verdict{display:inline-block;padding:0 .5em;border:1px solid var(--line);border-radius:4px;
background:var(--panel);font-size:.85em;font-weight:600}
.stop{border-color:var(--launch);color:var(--launch)}
.done{border-color:var(--compute);color:var(--compute)}
.kernels{width:100%;border-collapse:collapse;margin:.6em 0}
.kernels th,.kernels td{padding:6px 10px 6px 0;border-bottom:1px solid var(--line);
text-align:left;vertical-align:top}
.kernels th{color:var(--muted);font-size:.85em;font-weight:600;white-space:nowrap}
.kernels .num{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.kernels .keep{white-space:nowrap}
.kernels td:first-child{min-width:14em}
.kernels td:not(:first-child){overflow-wrap:break-word}
.two{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:0 32px}
.two>:only-child{grid-column:1/-1}
.bar{display:flex;height:26px;gap:1px;border-radius:4px;overflow:hidden}
.bar span{flex-basis:0;min-width:1px}
.legend{list-style:none;padding:0;display:grid;gap:2px 20px;
grid-template-columns:repeat(auto-fill,minmax(min(270px,100%),1fr))}
.legend li{display:flex;align-items:baseline}
.legend b{margin-left:auto;padding-left:8px;font-variant-numeric:tabular-nums;white-space:nowrap}
.dot{flex:none;width:.75em;height:.75em;border-radius:2px;margin-right:.5em}
.t-memory{background:var(--memory)}.t-l1{background:var(--l1)}.t-compute{background:var(--compute)}
.t-wait1{background:var(--wait1)}.t-wait2{background:var(--wait2)}.t-wait3{background:var(--wait3)}
.t-launch{background:var(--launch)}.t-fill{background:var(--fill)}.t-other{background:var(--other)}
.roofline{display:block;width:100%;max-width:440px;height:auto}
.roofline text{fill:var(--muted);font-size:11px}
.roofline .grid{stroke:var(--line);stroke-width:1}
.roofline .roof{fill:none;stroke:var(--memory);stroke-width:2}
.roofline .gap{stroke:var(--wait1);stroke-dasharray:3 3}
.roofline .here{fill:var(--wait1);stroke:var(--bg);stroke-width:2}
.diagnosis{margin:.8em 0;padding:10px 14px;background:var(--panel);border-radius:6px;
border-left:3px solid var(--wait1)}
.diagnosis h4{margin:0 0 .3em;font-size:1em}
.diagnosis dl{margin:0;display:grid;grid-template-columns:6.5em minmax(0,1fr);gap:3px 10px}
.diagnosis dt{color:var(--muted);font-size:.9em}
.diagnosis dd{margin:0}
summary{cursor:pointer}
details.more{margin:.5em 0}
details.more>summary{color:var(--link)}
.path{font-weight:600}
.source{border:1px solid var(--line);border-radius:6px;overflow:hidden;line-height:1.45}
.row{display:grid;grid-template-columns:4.2em 5em minmax(0,1fr) auto;column-gap:8px;
padding:0 8px 0 0;background:rgb(var(--heat)/calc(var(--h,0)*.28))}
.row b{color:var(--muted);font-weight:normal;text-align:right;padding-left:14px;position:relative}
.row span{text-align:right;font-variant-numeric:tabular-nums}
.row code{font-size:1em;white-space:pre-wrap;tab-size:4}
.row i{grid-column:4;font-style:normal;color:var(--muted)}
.row mark{grid-column:3/5}
mark{background:var(--mark);color:var(--mark-fg);border-radius:3px;padding:0 .4em;margin:1px 0;
font-family:system-ui,sans-serif;justify-self:start}
summary.row{list-style:none}
summary.row::-webkit-details-marker{display:none}
summary.row b::before{content:"\\25b8";position:absolute;left:4px}
details[open]>summary.row b::before{content:"\\25be"}
summary.row:hover b,summary.row:focus-visible b{color:var(--link)}
:target{outline:2px solid var(--link);outline-offset:-2px}
.fold{padding:1px 14px;color:var(--muted);background:var(--panel);
border-block:1px solid var(--line)}
.sass{width:100%;border-collapse:collapse;background:var(--panel);color:var(--muted)}
.source .sass{font-size:1em}
.sass td{padding:0 8px 0 0;vertical-align:top}
.sass td:nth-child(1){padding-left:26px;width:6em}
.sass td:nth-child(2){color:var(--fg)}
.sass td:nth-child(3){text-align:right;white-space:nowrap;width:5em}
.sass td:nth-child(4){width:13em}
.sass tr{background:rgb(var(--heat)/calc(var(--h,0)*.28))}
footer{margin:32px 0 0;padding:10px 0;border-top:1px solid var(--line)}
@media (max-width:880px){
body{padding:12px}
.two{display:block}
.kernels thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.kernels,.kernels tbody,.kernels tr,.kernels td{display:block}
.kernels tr{padding:8px 0;border-bottom:1px solid var(--line)}
.kernels td,.kernels .num,.kernels .keep{display:flex;gap:10px;justify-content:space-between;
padding:1px 0;border:0;text-align:right;white-space:normal}
.kernels td:first-child{display:block;min-width:0;text-align:left;font-weight:600}
.kernels td:empty{display:none}
.kernels td:not(:first-child){overflow-wrap:anywhere}
.kernels td:not(:first-child)::before{content:attr(data-name);color:var(--muted);flex:none}
.diagnosis{padding:8px 10px}
.diagnosis dl{display:block}
.diagnosis dt{margin-top:.4em}
.source,.sass{font-size:12px}
.row{grid-template-columns:3.4em 3.9em minmax(0,1fr);column-gap:6px;padding-right:4px}
.row i,.row mark{grid-column:3}
.sass td:nth-child(1){display:none}
.sass td:nth-child(2){padding-left:14px}
.sass td:nth-child(4){width:7em}
}
@media print{details.more{display:none}.row,.bar span{print-color-adjust:exact}}
"""
